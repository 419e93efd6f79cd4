// Records that are written and read while their leaders move away: an idempotent producer for each codec, as kgo makes
// them, and a consumer that is given its partitions.
package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	movedTopic         = "moved"
	firstRecords       = 2000 // two seconds of replication
	atOnce             = 5
	mostUnacknowledged = 200
	mostDelivered      = firstRecords * 10 // between two looks: no producer is to wait for one
	look               = 20 * time.Millisecond
)

var codecs = []kgo.CompressionCodec{
	kgo.NoCompression(), kgo.GzipCompression(), kgo.SnappyCompression(), kgo.Lz4Compression(), kgo.ZstdCompression(),
}

type traffic struct {
	ctx          context.Context
	admin        *kadm.Client
	producers    []*kgo.Client
	consumer     *kgo.Client
	delivered    chan error
	written      [][]string
	read         [][]string
	acknowledged int
}

func moveRecords(servers []string) {
	ctx, cancel := context.WithTimeout(context.Background(), wholeStory)
	defer cancel()
	t := traffic{
		ctx:       ctx,
		delivered: make(chan error, mostDelivered),
		written:   make([][]string, len(codecs)),
		read:      make([][]string, len(codecs)),
	}
	beginning := make(map[int32]kgo.Offset)
	for partition, codec := range codecs {
		producer, err := kgo.NewClient(
			kgo.SeedBrokers(servers...), kgo.DefaultProduceTopic(movedTopic), kgo.ProducerBatchCompression(codec),
			kgo.RecordPartitioner(kgo.ManualPartitioner()),
		)
		succeed("a producer", err)
		defer producer.Close()
		t.producers = append(t.producers, producer)
		beginning[int32(partition)] = kgo.NewOffset().AtStart()
	}
	t.admin = kadm.NewClient(t.producers[0])
	t.create()
	consumer, err := kgo.NewClient(
		kgo.SeedBrokers(servers...), kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{movedTopic: beginning}),
	)
	succeed("the consumer", err)
	defer consumer.Close()
	t.consumer = consumer
	t.play()
	deleted, err := t.admin.DeleteTopic(ctx, movedTopic)
	succeed("DeleteTopics", errors.Join(err, deleted.Err))
}

func (t *traffic) create() {
	made, err := t.admin.CreateTopic(t.ctx, int32(len(codecs)), 2, nil, movedTopic)
	succeed("CreateTopics", errors.Join(err, made.Err))
	t.move(nil, []int32{1, 2})
	for len(t.moves()) > 0 {
		continue // there are no records yet
	}
}

func (t *traffic) play() {
	t.write(firstRecords)
	t.finish()
	t.elect(nil, kerr.ElectionNotNeeded)
	t.expectLeader(1)
	t.move(nil, []int32{3, 2})
	moves := t.moves()
	for partition := range codecs {
		move := moves[movedTopic][int32(partition)]
		shown := [][]int32{move.Replicas, move.AddingReplicas, move.RemovingReplicas}
		expect("a move", shown, [][]int32{{3, 2, 1}, {3}, {1}})
	}
	for len(t.moves()) > 0 {
		t.goOn()
	}
	t.expectLeader(3)
	t.move(nil, []int32{2, 3})
	t.elect(nil)
	t.expectLeader(2)
	t.elect(kerr.ElectionNotNeeded)
	for range atOnce {
		t.goOn()
	}
	t.finish()
	t.expectAllThere()
	t.move(nil, []int32{1, 3})
	t.move(nil, nil)
	expect("the moves after they were cancelled", len(t.moves()), 0)
	t.move(kerr.NoReassignmentInProgress, nil)
	t.expectLeader(2)
}

func (t *traffic) write(ofEach int) {
	for partition := range codecs {
		for range ofEach {
			number := len(t.written[partition])
			value := strings.Repeat(fmt.Sprintf("partition %d record %d ", partition, number), 8)
			t.written[partition] = append(t.written[partition], value)
			record := &kgo.Record{Partition: int32(partition), Key: fmt.Append(nil, number), Value: []byte(value)}
			t.producers[partition].Produce(t.ctx, record, func(_ *kgo.Record, err error) { t.delivered <- err })
		}
	}
}

func (t *traffic) goOn() {
	if total(t.written)-t.acknowledged < mostUnacknowledged {
		t.write(atOnce)
	}
	t.look()
}

// look takes what was acknowledged and what can be read by now.
func (t *traffic) look() {
	ctx, cancel := context.WithTimeout(t.ctx, look)
	defer cancel()
	fetches := t.consumer.PollFetches(ctx)
	for _, fetchError := range fetches.Errors() {
		if !errors.Is(fetchError.Err, context.DeadlineExceeded) {
			succeed("Fetch", fetchError.Err)
		}
	}
	fetches.EachRecord(func(record *kgo.Record) {
		before := t.read[record.Partition]
		expect("the offset of a record", record.Offset, int64(len(before)))
		expect("its key", string(record.Key), fmt.Sprint(len(before)))
		t.read[record.Partition] = append(before, string(record.Value))
	})
	for {
		select {
		case err := <-t.delivered:
			succeed("Produce", err)
			t.acknowledged++
		default:
			return
		}
	}
}

func (t *traffic) finish() {
	for deadline := time.Now().Add(waitFor); t.acknowledged < total(t.written) || total(t.read) < total(t.written); {
		t.look()
		if time.Now().After(deadline) {
			panic(wrong(fmt.Sprintf("of %d records %d were acknowledged and %d read",
				total(t.written), t.acknowledged, total(t.read))))
		}
	}
}

func total(values [][]string) int {
	count := 0
	for _, of := range values {
		count += len(of)
	}
	return count
}

// move asks for a reassignment of all partitions, or with nil for the end of it.
func (t *traffic) move(wanted error, target []int32) {
	var asked kadm.AlterPartitionAssignmentsReq
	for partition := range codecs {
		asked.Assign(movedTopic, int32(partition), target)
	}
	answers, err := t.admin.AlterPartitionAssignments(t.ctx, asked)
	succeed("AlterPartitionReassignments", err)
	for _, answer := range answers.Sorted() {
		if !errors.Is(answer.Err, wanted) {
			panic(wrong(fmt.Sprintf("partition %d is answered with %v, not %v", answer.Partition, answer.Err, wanted)))
		}
	}
}

// moves names the partitions: kadm does not even ask about none.
func (t *traffic) moves() kadm.ListPartitionReassignmentsResponses {
	moves, err := t.admin.ListPartitionReassignments(t.ctx, everyPartition())
	succeed("ListPartitionReassignments", err)
	return moves
}

func everyPartition() kadm.TopicsSet {
	var all kadm.TopicsSet
	for partition := range codecs {
		all.Add(movedTopic, int32(partition))
	}
	return all
}

// elect asks for the preferred leaders; each partition is answered with one of these errors.
func (t *traffic) elect(wanted ...error) {
	answers, err := t.admin.ElectLeaders(t.ctx, kadm.ElectPreferredReplica, everyPartition())
	succeed("ElectLeaders", err)
	expect("the partitions of ElectLeaders", len(answers[movedTopic]), len(codecs))
	for _, answer := range answers[movedTopic] {
		found := false
		for _, each := range wanted {
			found = found || errors.Is(answer.Err, each)
		}
		if !found {
			panic(wrong(fmt.Sprintf("the election in partition %d is answered with %v", answer.Partition, answer.Err)))
		}
	}
}

func (t *traffic) expectLeader(brokerID int32) {
	topics, err := t.admin.ListTopics(uncached(t.ctx), movedTopic)
	succeed("Metadata", err)
	for _, row := range topics[movedTopic].Partitions.Sorted() {
		expect(fmt.Sprintf("the leader of partition %d", row.Partition), row.Leader, brokerID)
	}
}

func (t *traffic) expectAllThere() {
	expect("whether all records were read as they were written", fmt.Sprint(t.read) == fmt.Sprint(t.written), true)
	ends, err := t.admin.ListEndOffsets(t.ctx, movedTopic)
	succeed("ListOffsets", errors.Join(err, ends.Error()))
	logDirs, err := t.admin.DescribeAllLogDirs(t.ctx, nil)
	succeed("DescribeLogDirs", err)
	for partition, of := range t.written {
		end, _ := ends.Lookup(movedTopic, int32(partition))
		expect("the end of a partition", end.Offset, int64(len(of)))
		var holders []int32
		logDirs.Each(func(dir kadm.DescribedLogDir) {
			if held, there := dir.Topics.Lookup(movedTopic, int32(partition)); there {
				expect("its lag", held.OffsetLag, int64(0))
				holders = append(holders, dir.Broker)
			}
		})
		expect("who holds a partition", sorted(holders), []int32{2, 3})
	}
}
