// Package kfake stands in for franz-go's kfake, so that tests written for it run on a cluster of another kind: a Klamm of
// their own, which is started with the number of brokers and the configs that they want, or the brokers of
// KLAMM_SUITES_SERVERS. A test that needs more of kfake ends the process with NotPortable.
package kfake

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"
)

// NotPortable is the exit code of a test that needs something that only kfake has.
const NotPortable = 97

type topics struct {
	partitions int32
	names      []string
}

type config struct {
	brokers int
	seeded  []topics
	configs map[string]string
}

// Opt is an option of a cluster.
type Opt func(*config)

// NumBrokers sets the number of brokers; 3 by default.
func NumBrokers(n int) Opt { return func(c *config) { c.brokers = n } }

// SeedTopics makes topics with a number of partitions; replicas are on one broker, as in kfake.
func SeedTopics(partitions int32, names ...string) Opt {
	return func(c *config) { c.seeded = append(c.seeded, topics{partitions, names}) }
}

// BrokerConfigs sets configs of all brokers.
func BrokerConfigs(configs map[string]string) Opt {
	return func(c *config) {
		for name, value := range configs {
			c.configs[name] = value
		}
	}
}

// MaxVersions would limit the versions of APIs.
func MaxVersions(*kversion.Versions) Opt { notPortable("MaxVersions"); return nil }

// Cluster is a running cluster.
type Cluster struct {
	addresses []string
	stop      func()
}

// NewCluster starts a cluster and makes its topics.
func NewCluster(opts ...Opt) (*Cluster, error) {
	wanted := &config{brokers: 3, configs: map[string]string{}}
	for _, opt := range opts {
		opt(wanted)
	}
	cluster := &Cluster{stop: func() {}}
	if servers := os.Getenv("KLAMM_SUITES_SERVERS"); servers != "" {
		cluster.addresses = strings.Split(servers, ",")
	} else if err := cluster.start(wanted); err != nil {
		return nil, err
	}
	cluster.findCoordinators()
	for _, seeded := range wanted.seeded {
		if err := cluster.create(seeded); err != nil {
			cluster.Close()
			return nil, err
		}
	}
	return cluster, nil
}

func (c *Cluster) start(wanted *config) error {
	arguments := []string{"serve", "--listen", "127.0.0.1:0", "--stop-with-stdin", "--profile", "kafka"}
	ids := make([]string, wanted.brokers)
	for id := range ids {
		ids[id] = fmt.Sprint(id) // as in kfake
	}
	arguments = append(arguments, "--broker-ids", strings.Join(ids, ","))
	arguments = append(arguments, "--set", "group.initial.rebalance.delay.ms=0")
	for name, value := range wanted.configs {
		arguments = append(arguments, "--set", name+"="+value)
	}
	server := exec.Command(os.Getenv("KLAMM_SUITES_COMMAND"), arguments...)
	server.Stderr = os.Stderr
	input, err := server.StdinPipe()
	if err != nil {
		return err
	}
	output, err := server.StdoutPipe()
	if err != nil {
		return err
	}
	if err := server.Start(); err != nil {
		return err
	}
	ready, err := bufio.NewReader(output).ReadString('\n')
	if err != nil {
		return fmt.Errorf("klamm serve did not start: %w", err)
	}
	c.addresses = strings.Split(strings.TrimPrefix(strings.TrimSpace(ready), "bootstrap.servers="), ",")
	c.stop = func() { closeAndWait(input, server) }
	return nil
}

func closeAndWait(input io.Closer, server *exec.Cmd) {
	_ = input.Close()
	_ = server.Wait()
}

// findCoordinators waits until there are coordinators of groups and transactions: kfake always has them, other clusters
// make their internal topics on demand and refuse the first requests.
func (c *Cluster) findCoordinators() {
	client, err := kgo.NewClient(kgo.SeedBrokers(c.addresses...))
	if err != nil {
		return
	}
	defer client.Close()
	for kind := int8(0); kind < 2; kind++ {
		for attempt := 0; attempt < 100; attempt++ {
			request := kmsg.NewPtrFindCoordinatorRequest()
			request.CoordinatorType, request.CoordinatorKey = kind, "any"
			request.CoordinatorKeys = []string{"any"}
			response, err := request.RequestWith(context.Background(), client)
			if err == nil && response.ErrorCode == 0 && (len(response.Coordinators) == 0 || response.Coordinators[0].ErrorCode == 0) {
				break
			}
			time.Sleep(50 * time.Millisecond)
		}
	}
}

func (c *Cluster) create(wanted topics) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(c.addresses...))
	if err != nil {
		return err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	request := kmsg.NewPtrCreateTopicsRequest()
	for _, name := range wanted.names {
		topic := kmsg.NewCreateTopicsRequestTopic()
		topic.Topic, topic.NumPartitions, topic.ReplicationFactor = name, wanted.partitions, 1
		request.Topics = append(request.Topics, topic)
	}
	response, err := request.RequestWith(ctx, client)
	if err != nil {
		return err
	}
	for _, topic := range response.Topics {
		if err := kerr.ErrorForCode(topic.ErrorCode); err != nil {
			return fmt.Errorf("topic %s: %w", topic.Topic, err)
		}
	}
	return nil
}

// ListenAddrs returns HOST:PORT of each broker.
func (c *Cluster) ListenAddrs() []string { return c.addresses }

// Close stops the cluster.
func (c *Cluster) Close() { c.stop() }

// TopicInfo describes a topic of kfake.
type TopicInfo struct{ TopicID [16]byte }

// PartitionInfo describes a partition of kfake.
type PartitionInfo struct{ LogStartOffset, HighWatermark, LastStableOffset int64 }

// The rest of kfake looks into the cluster, or answers in its place.

func (c *Cluster) Control(func(kmsg.Request) (kmsg.Response, error, bool))           { notPortable("Control") }
func (c *Cluster) ControlKey(int16, func(kmsg.Request) (kmsg.Response, error, bool)) { notPortable("ControlKey") }
func (c *Cluster) KeepControl()                                                      { notPortable("KeepControl") }
func (c *Cluster) Compact()                                                          { notPortable("Compact") }
func (c *Cluster) ApplyRetention()                                                   { notPortable("ApplyRetention") }
func (c *Cluster) LeaderFor(string, int32) int32                                     { notPortable("LeaderFor"); return -1 }
func (c *Cluster) TopicInfo(string) *TopicInfo                                       { notPortable("TopicInfo"); return nil }
func (c *Cluster) PartitionInfo(string, int32) *PartitionInfo                        { notPortable("PartitionInfo"); return nil }
func (c *Cluster) MoveTopicPartition(string, int32, int32) error                     { notPortable("MoveTopicPartition"); return nil }

func notPortable(what string) {
	fmt.Println("not portable:", what)
	os.Exit(NotPortable)
}
