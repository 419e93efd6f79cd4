// The story of scripts/demo, told by kadm: topics of its own are made, described, configured, enlarged, refused and
// deleted.
package main

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	automatic = "orders-go"
	byHand    = "by-hand-go"
)

var (
	racks  = map[int32]string{1: "a", 2: "b", 3: "c"}
	placed = [][]int32{{3, 1}, {2, 3}, {1, 2}}
)

func (s story) demo() {
	s.seeBrokers()
	s.createAndConfigure()
	s.enlargeIt()
	s.createByHand()
	s.beRefused()
	s.deleteAll()
}

func (s story) seeBrokers() {
	brokers, err := s.admin.ListBrokers(s.ctx)
	succeed("Metadata", err)
	seen := map[int32]string{}
	for _, broker := range brokers {
		if broker.Rack != nil {
			seen[broker.NodeID] = *broker.Rack
		}
	}
	expect("the brokers and their racks", seen, racks)
}

func (s story) createAndConfigure() {
	_, err := s.admin.CreateTopic(s.ctx, 4, 2, map[string]*string{"retention.ms": kadm.StringPtr("86400000")}, automatic)
	succeed("CreateTopics", err)
	made := s.see(automatic)
	expect("the partitions", len(made), 4)
	leaders := map[int32]bool{}
	for _, row := range made {
		leaders[row.Leader] = true
	}
	expect("who leads", slices.Sorted(maps.Keys(leaders)), brokerIDs)
	s.expectRetention("86400000", kmsg.ConfigSourceDynamicTopicConfig)
	succeed("IncrementalAlterConfigs", s.alterTopic(automatic, change("retention.ms", "3600000")))
	s.expectRetention("3600000", kmsg.ConfigSourceDynamicTopicConfig)
	succeed("IncrementalAlterConfigs", s.alterTopic(automatic, change("retention.ms", "")))
	s.expectRetention("604800000", kmsg.ConfigSourceDefaultConfig)
}

func (s story) enlargeIt() {
	before := replicas(s.see(automatic))
	succeed("CreatePartitions", s.enlarge(automatic, 6))
	after := replicas(s.see(automatic))
	expect("the partitions after enlarging", len(after), 6)
	expect("the former partitions", after[:4], before)
}

// createByHand goes by kmsg: kadm cannot say where replicas shall be.
func (s story) createByHand() {
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = byHand, -1, -1
	for index, row := range placed {
		assignment := kmsg.NewCreateTopicsRequestTopicReplicaAssignment()
		assignment.Partition, assignment.Replicas = int32(index), row
		topic.ReplicaAssignment = append(topic.ReplicaAssignment, assignment)
	}
	request := kmsg.NewPtrCreateTopicsRequest()
	request.Topics = append(request.Topics, topic)
	answer, err := request.RequestWith(s.ctx, s.client)
	succeed("CreateTopics", err)
	succeed("CreateTopics by hand", kerr.ErrorForCode(answer.Topics[0].ErrorCode))
	expect("where it was put", replicas(s.see(byHand)), placed)
	expect("the topics", s.names(), []string{byHand, automatic})
}

func (s story) beRefused() {
	tooMany := s.create("too-many-replicas", 1, 4)
	refused(kerr.InvalidReplicationFactor, tooMany)
	expect("the words of the refusal: "+tooMany.Error(), strings.Contains(tooMany.Error(), "3 broker"), true)
	refused(kerr.TopicAlreadyExists, s.create(automatic, -1, -1))
	refused(kerr.InvalidPartitions, s.enlarge(automatic, 6))
	refused(kerr.InvalidConfig, s.alterTopic(automatic, change("retention.ms", "soon")))
	_, err := s.admin.DeleteTopic(s.ctx, "too-many-replicas")
	refused(kerr.UnknownTopicOrPartition, err)
	expect("the topics after the refusals", s.names(), []string{byHand, automatic})
}

func (s story) deleteAll() {
	deleted, err := s.admin.DeleteTopics(s.ctx, automatic, byHand)
	succeed("DeleteTopics", errors.Join(err, deleted.Error()))
	described, err := s.admin.ListTopics(uncached(s.ctx), automatic)
	succeed("Metadata", err)
	refused(kerr.UnknownTopicOrPartition, described[automatic].Err)
	expect("the topics that are left", s.names(), []string{})
}

// see is the topic as it is now, the demo's rules checked: one leader, in sync, no two replicas on a rack.
func (s story) see(name string) []kadm.PartitionDetail {
	topics, err := s.admin.ListTopics(uncached(s.ctx), name)
	succeed("Metadata", errors.Join(err, topics[name].Err))
	rows := topics[name].Partitions.Sorted()
	for index, row := range rows {
		where := fmt.Sprintf("%s-%d", name, index)
		expect("the index of "+where, row.Partition, int32(index))
		expect("the leader of "+where, row.Leader, row.Replicas[0])
		expect("the ISR of "+where, sorted(row.ISR), sorted(row.Replicas))
		held := map[string]bool{}
		for _, id := range row.Replicas {
			held[racks[id]] = true
		}
		expect("the racks of "+where, len(held), len(row.Replicas))
	}
	return rows
}

func replicas(rows []kadm.PartitionDetail) (all [][]int32) {
	for _, row := range rows {
		all = append(all, row.Replicas)
	}
	return all
}

func (s story) expectRetention(value string, source kmsg.ConfigSource) {
	described, err := s.admin.DescribeTopicConfigs(s.ctx, automatic)
	succeed("DescribeConfigs", err)
	shown := config(described[0], "retention.ms")
	expect("retention.ms", shown.MaybeValue(), value)
	expect("its source", shown.Source, source)
}

func (s story) alterTopic(name string, changes ...kadm.AlterConfig) error {
	altered, err := s.admin.AlterTopicConfigs(s.ctx, changes, name)
	if err != nil {
		return err
	}
	return altered[0].Err
}
