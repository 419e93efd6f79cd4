// Command placement times kfake's placement, by the line protocol of bench/peers/placement/PlacementPeer.java.
//
//	place PARTITIONS RF BROKERS RACKS SEED CALLS FRESH FILE     nanoseconds of all CALLS together
//
// kfake has no placement by itself: Cluster.CreateTopic draws a leader for each partition while it makes it, and the
// followers are the next brokers, found whenever Metadata is asked for. So what is timed is CreateTopic, in the
// process; the replicas written to FILE are those that Metadata tells. kfake knows no racks and takes no seed, its
// replication factor is the cluster's own, and its brokers are there before the clock runs: RACKS, SEED and FRESH do
// nothing.
package main

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"log"
	"net"
	"os"
	"runtime"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	ownReplicationFactor = 3 // of a topic that CreateTopic makes, where there are so many brokers
	metadataVersion      = 8 // the last one whose headers are plain
	timeout              = 60 * time.Second
)

type order struct {
	partitions, replicationFactor, brokers, racks, seed, calls, fresh int
	file                                                              string
}

func main() {
	log.SetFlags(0)
	log.SetPrefix("kfake placement: ")
	if err := answer(); err != nil {
		log.Fatal(err)
	}
}

func answer() error {
	fmt.Println("ready")
	var cluster *kfake.Cluster
	brokers := 0
	commands := bufio.NewScanner(os.Stdin)
	for commands.Scan() {
		var o order
		if _, err := fmt.Sscanf(commands.Text(), "place %d %d %d %d %d %d %d %s", &o.partitions, &o.replicationFactor,
			&o.brokers, &o.racks, &o.seed, &o.calls, &o.fresh, &o.file); err != nil {
			return fmt.Errorf("%q: %w", commands.Text(), err)
		}
		if o.replicationFactor != min(ownReplicationFactor, o.brokers) {
			return fmt.Errorf("replication factor %d cannot be asked for here", o.replicationFactor)
		}
		if o.brokers != brokers {
			if cluster != nil {
				cluster.Close()
			}
			var err error
			if cluster, err = kfake.NewCluster(kfake.NumBrokers(o.brokers)); err != nil {
				return err
			}
			brokers = o.brokers
		}
		taken, err := timePlacements(cluster, o)
		if err != nil {
			return err
		}
		fmt.Println(taken.Nanoseconds())
	}
	return commands.Err()
}

func timePlacements(cluster *kfake.Cluster, o order) (time.Duration, error) {
	var taken time.Duration
	for call := range o.calls {
		topic := fmt.Sprintf("orders-%d", call)
		if o.calls == 1 {
			runtime.GC() // so that a large placement does not pay for those before it
		}
		begun := time.Now()
		if err := cluster.CreateTopic(topic, int32(o.partitions), nil); err != nil {
			return 0, err
		}
		taken += time.Since(begun)
		if call == o.calls-1 && o.file != "-" {
			if err := write(cluster, topic, o); err != nil {
				return 0, err
			}
		}
		if err := cluster.DeleteTopic(topic); err != nil {
			return 0, err
		}
	}
	return taken, nil
}

func write(cluster *kfake.Cluster, topic string, o order) error {
	told, err := metadata(cluster.ListenAddrs()[0], topic)
	if err != nil {
		return err
	}
	if len(told.Topics) != 1 || told.Topics[0].ErrorCode != 0 {
		return fmt.Errorf("Metadata of %s failed", topic)
	}
	rows := make([]byte, 4*o.partitions*o.replicationFactor)
	for _, partition := range told.Topics[0].Partitions {
		for column, broker := range partition.Replicas {
			cell := int(partition.Partition)*o.replicationFactor + column
			binary.LittleEndian.PutUint32(rows[4*cell:], uint32(broker))
		}
	}
	return os.WriteFile(o.file, rows, 0o600)
}

func metadata(address, topic string) (*kmsg.MetadataResponse, error) {
	connection, err := net.Dial("tcp", address)
	if err != nil {
		return nil, err
	}
	defer connection.Close()
	if err := connection.SetDeadline(time.Now().Add(timeout)); err != nil {
		return nil, err
	}
	request := kmsg.NewPtrMetadataRequest()
	request.Version = metadataVersion
	asked := kmsg.NewMetadataRequestTopic()
	asked.Topic = &topic
	request.Topics = append(request.Topics, asked)
	if _, err := connection.Write(kmsg.NewRequestFormatter().AppendRequest(nil, request, 1)); err != nil {
		return nil, err
	}
	var size uint32
	if err := binary.Read(connection, binary.BigEndian, &size); err != nil {
		return nil, err
	}
	answer := make([]byte, size)
	if _, err := io.ReadFull(connection, answer); err != nil {
		return nil, err
	}
	response := kmsg.NewPtrMetadataResponse()
	response.Version = metadataVersion
	return response, response.ReadFrom(answer[4:]) // after the correlation id
}
