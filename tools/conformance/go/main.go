// The stories of docs/clients.md, told by franz-go and kadm, its admin client:
//
//	conformance BOOTSTRAP_SERVERS CONTROL_URL
//
// Exit code 0 if every answer is as it should be; else 1, and one line says which is not.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	waitFor         = 2 * time.Minute
	wholeStory      = 10 * time.Minute
	underReplicated = "enable.under.replicated.topic.creation"
	limit           = "max.broker.partitions"
)

var brokerIDs = []int32{1, 2, 3}

// wrong is what a story panics with when an answer is not as it should be.
type wrong string

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "go: two arguments are expected: BOOTSTRAP_SERVERS CONTROL_URL")
		os.Exit(1)
	}
	defer func() {
		if reason := recover(); reason != nil {
			text, told := reason.(wrong)
			if !told {
				panic(reason)
			}
			fmt.Fprintln(os.Stderr, "go:", strings.ReplaceAll(string(text), "\n", " "))
			os.Exit(1)
		}
	}()
	servers := strings.Split(os.Args[1], ",")
	play(servers, os.Args[2])
	moveRecords(servers)
	consumeShared(servers)
	fmt.Println("go: every answer is as it should be")
}

type story struct {
	ctx        context.Context
	client     *kgo.Client
	admin      *kadm.Client
	controlURL string
}

func play(servers []string, controlURL string) {
	client, err := kgo.NewClient(kgo.SeedBrokers(servers...))
	succeed("the client", err)
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), wholeStory)
	defer cancel()
	s := story{ctx, client, kadm.NewClient(client), controlURL}

	s.demo()
	s.leaveCountsToTheBroker()
	s.control(3, "stop")
	refused(kerr.InvalidReplicationFactor, s.create("too-early", 1, 3))
	s.control(3, "start")
	s.setForAllBrokers(underReplicated, "true")
	made := s.restartBrokerByBroker()
	s.meetLimits(int64(3 * len(made)))
	s.letSomebodyElseIn()
	s.setForAllBrokers(underReplicated, "")
	deleted, err := s.admin.DeleteTopics(ctx, made...)
	succeed("DeleteTopics", errors.Join(err, deleted.Error()))
	expect("the topics that are left", s.names(), []string{})
}

func (s story) leaveCountsToTheBroker() {
	made, err := s.admin.CreateTopic(s.ctx, -1, -1, nil, "defaults")
	succeed("CreateTopics with defaults", err)
	expect("num.partitions", made.NumPartitions, int32(3))
	expect("default.replication.factor", made.ReplicationFactor, int16(2))
	policy := made.Configs["cleanup.policy"]
	expect("cleanup.policy", policy.MaybeValue(), "delete")
	deleted, err := s.admin.DeleteTopic(s.ctx, "defaults")
	succeed("DeleteTopics", errors.Join(err, deleted.Err))
}

func (s story) restartBrokerByBroker() []string {
	succeed("CreateTopics", s.create("before", 3, 3))
	made := []string{"before"}
	for _, down := range brokerIDs {
		others := slices.DeleteFunc(slices.Clone(brokerIDs), func(id int32) bool { return id == down })
		name := fmt.Sprintf("while-%d-is-down", down)
		made = append(made, name)
		s.control(down, "stop")
		succeed("CreateTopics", s.create(name, 2, 3))
		succeed("CreatePartitions", s.enlarge(name, 3))
		placed := s.partitions(name, func(rows []kadm.PartitionDetail) bool { return len(rows) == 3 })
		var wanted [][]int32
		for _, row := range placed {
			expect("the placeholder of "+name, row.Replicas[2:], []int32{-1})
			expect("the offline replicas of "+name, row.OfflineReplicas, []int32{-1})
			expect("the replicas of "+name, sorted(row.Replicas[:2]), others)
			expect("the ISR of "+name, sorted(row.ISR), others)
			expect("the leader of "+name, row.Leader, row.Replicas[0])
			wanted = append(wanted, []int32{row.Replicas[0], row.Replicas[1], down})
		}
		s.control(down, "start")
		var filled [][]int32
		for _, row := range s.partitions(name, areWhole) {
			filled = append(filled, row.Replicas)
		}
		expect("the filled replicas of "+name, filled, wanted)
		s.partitions("before", areWhole)
	}
	expect("the topics", s.names(), made)
	return made
}

func (s story) meetLimits(held int64) { // by each broker
	s.setForAllBrokers(limit, fmt.Sprint(held+1))
	succeed("CreateTopics", s.create("the-last-one", 1, 3))
	for _, err := range []error{s.create("too-much", 1, 1), s.enlarge("the-last-one", 2)} {
		refused(kerr.PolicyViolation, err)
		for _, named := range []string{
			fmt.Sprintf("%s=%d", limit, held+1), fmt.Sprintf("max.partitions=%d", int64(math.MaxInt64)),
		} {
			if !strings.Contains(err.Error(), named) {
				panic(wrong("the refusal does not name " + named + ": " + err.Error()))
			}
		}
	}
	described, err := s.admin.DescribeBrokerConfigs(s.ctx, 1)
	succeed("DescribeConfigs", err)
	shown := config(described[0], limit)
	expect("the limit", shown.MaybeValue(), fmt.Sprint(held+1))
	expect("its source", shown.Source, kmsg.ConfigSourceDynamicDefaultBrokerConfig)
	var synonyms []string
	for _, synonym := range shown.Synonyms {
		synonyms = append(synonyms, fmt.Sprint(synonym.Source, " ", *synonym.Value))
	}
	expect("its synonyms", synonyms, []string{
		fmt.Sprint("DYNAMIC_DEFAULT_BROKER_CONFIG ", held+1), fmt.Sprint("DEFAULT_CONFIG ", int64(math.MaxInt64)),
	})
	s.setForAllBrokers(limit, "")
	succeed("CreatePartitions", s.enlarge("the-last-one", 2))
	expect("the enlarged topic", len(s.partitions("the-last-one", areWhole)), 2)
	succeed("IncrementalAlterConfigs", s.alterTopic("the-last-one", change("retention.ms", "1000")))
	described, err = s.admin.DescribeTopicConfigs(s.ctx, "the-last-one")
	succeed("DescribeConfigs", err)
	shown = config(described[0], "retention.ms")
	expect("retention.ms", shown.MaybeValue(), "1000")
	deleted, err := s.admin.DeleteTopic(s.ctx, "the-last-one")
	succeed("DeleteTopics", errors.Join(err, deleted.Err))
}

// Once an entry says who may, the anonymous client is not among them.
func (s story) letSomebodyElseIn() {
	entry := kadm.NewACLs().Topics("before").ResourcePatternType(kadm.ACLPatternLiteral).
		Operations(kadm.OpAlter).Allow("User:bob").AllowHosts("*")
	made, err := s.admin.CreateACLs(s.ctx, entry)
	succeed("CreateAcls", errors.Join(err, made[0].Err))
	found, err := s.admin.DescribeACLs(s.ctx, entry)
	succeed("DescribeAcls", errors.Join(err, found[0].Err))
	expect("the access control entries", len(found[0].Described), 1)
	expect("whom it lets in", found[0].Described[0].Principal, "User:bob")
	refused(kerr.TopicAuthorizationFailed, s.enlarge("before", 4))
	removed, err := s.admin.DeleteACLs(s.ctx, entry)
	succeed("DeleteAcls", errors.Join(err, removed[0].Err))
	expect("the removed entries", len(removed[0].Deleted), 1)
	succeed("CreatePartitions", s.enlarge("before", 4))
}

func (s story) create(name string, partitions int32, replicationFactor int16) error {
	answer, err := s.admin.CreateTopic(s.ctx, partitions, replicationFactor, nil, name)
	return inWords(err, answer.ErrMessage)
}

func (s story) enlarge(name string, partitions int) error {
	answers, err := s.admin.UpdatePartitions(s.ctx, partitions, name)
	if err != nil {
		return err
	}
	return inWords(answers[name].Err, answers[name].ErrMessage)
}

// inWords is the error with what the broker said: kadm's errors are those of Kafka's table, and its answers have the text.
func inWords(err error, said string) error {
	if err == nil || said == "" {
		return err
	}
	return fmt.Errorf("%w: %s", err, said)
}

func (s story) setForAllBrokers(name, value string) {
	answers, err := s.admin.AlterBrokerConfigs(s.ctx, []kadm.AlterConfig{change(name, value)})
	succeed("IncrementalAlterConfigs", errors.Join(err, answers[0].Err))
}

func change(name, value string) kadm.AlterConfig {
	if value == "" {
		return kadm.AlterConfig{Op: kadm.DeleteConfig, Name: name}
	}
	return kadm.AlterConfig{Op: kadm.SetConfig, Name: name, Value: &value}
}

func config(of kadm.ResourceConfig, name string) kadm.Config {
	succeed("DescribeConfigs", of.Err)
	for _, each := range of.Configs {
		if each.Key == name {
			return each
		}
	}
	panic(wrong("no config " + name))
}

func (s story) names() []string {
	topics, err := s.admin.ListTopics(uncached(s.ctx))
	succeed("Metadata", err)
	return topics.Names()
}

// partitions waits until they are so. Each look is a request: nothing is slept through.
func (s story) partitions(name string, areSo func([]kadm.PartitionDetail) bool) []kadm.PartitionDetail {
	for deadline := time.Now().Add(waitFor); ; {
		topics, err := s.admin.ListTopics(uncached(s.ctx), name)
		succeed("Metadata", errors.Join(err, topics[name].Err))
		rows := topics[name].Partitions.Sorted()
		if areSo(rows) {
			for _, row := range rows {
				succeed("Metadata of a partition of "+name, row.Err)
			}
			return rows
		}
		if time.Now().After(deadline) {
			panic(wrong(fmt.Sprintf("waited %s in vain: %+v", waitFor, rows)))
		}
	}
}

// uncached has kadm ask: metadata up to five seconds old (kgo.MetadataMinAge) is answered from memory otherwise.
func uncached(ctx context.Context) context.Context {
	return kadm.WithAuthorizedOps(ctx)
}

func areWhole(rows []kadm.PartitionDetail) bool {
	return !slices.ContainsFunc(rows, func(row kadm.PartitionDetail) bool {
		return !slices.Equal(sorted(row.ISR), brokerIDs)
	})
}

func sorted(ids []int32) []int32 {
	return slices.Sorted(slices.Values(ids))
}

func (s story) control(brokerID int32, change string) {
	response, err := http.Post(fmt.Sprintf("%s/brokers/%d/%s", s.controlURL, brokerID, change), "", nil)
	succeed("the control interface", err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	succeed("the control interface", err)
	expect(fmt.Sprintf("%s of broker %d: %s", change, brokerID, body), response.StatusCode, http.StatusOK)
}

func succeed(what string, err error) {
	if err != nil {
		panic(wrong(what + ": " + err.Error()))
	}
}

func refused(wanted, err error) {
	if !errors.Is(err, wanted) {
		panic(wrong(fmt.Sprintf("not refused with %v but: %v", wanted, err)))
	}
}

func expect(what string, found, wanted any) {
	if !reflect.DeepEqual(found, wanted) {
		panic(wrong(fmt.Sprintf("%s: %v instead of %v", what, found, wanted)))
	}
}
