package main

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	shareTopic   = "shared-orders"
	shareGroup   = "workers"
	shareRecords = 90
)

// consumeShared lets kgo's share consumer (KIP-932) read a topic: two members get each record once between them, released
// records come again, rejected ones do not, and another member gets what a member had that is gone.
func consumeShared(servers []string) {
	ctx, cancel := context.WithTimeout(context.Background(), wholeStory)
	defer cancel()
	client, err := kgo.NewClient(kgo.SeedBrokers(servers...), kgo.RecordPartitioner(kgo.RoundRobinPartitioner()))
	succeed("the client", err)
	defer client.Close()
	admin := kadm.NewClient(client)
	_, err = admin.CreateTopic(ctx, 2, 2, nil, shareTopic)
	succeed("CreateTopics", err)
	beginAtStart(ctx, client)
	number := 0
	write := func() {
		for range shareRecords {
			record := &kgo.Record{Topic: shareTopic, Value: []byte(strconv.Itoa(number))}
			succeed("Produce", client.ProduceSync(ctx, record).FirstErr())
			number++
		}
	}

	write()
	one, two := shareConsumer(servers), shareConsumer(servers)
	seen := map[int]int{}
	for len(seen) < number {
		for _, each := range []*kgo.Client{one, two} {
			pollShared(ctx, each, func(record *kgo.Record, value int) { seen[value]++ })
		}
	}
	for value, count := range seen {
		expect(fmt.Sprint("the deliveries of ", value), count, 1)
	}
	one.MarkAcks(kgo.AckAccept)
	succeed("FlushAcks", one.FlushAcks(ctx))
	one.Close()
	two.MarkAcks(kgo.AckAccept)
	succeed("FlushAcks", two.FlushAcks(ctx))

	write()
	counts := map[int]int{}
	for total := 0; total < shareRecords+shareRecords/10; {
		pollShared(ctx, two, func(record *kgo.Record, value int) {
			total++
			counts[value]++
			status := kgo.AckAccept
			if counts[value] == 1 {
				switch value % 10 {
				case 3:
					status = kgo.AckRelease
				case 7:
					status = kgo.AckReject
				}
			}
			record.Ack(status)
		})
		succeed("FlushAcks", two.FlushAcks(ctx))
	}
	for value, count := range counts {
		wanted := 1
		if value%10 == 3 {
			wanted = 2
		}
		expect(fmt.Sprint("the deliveries of ", value), count, wanted)
	}
	two.Close()

	write()
	lost := shareConsumer(servers)
	held := 0
	for held == 0 {
		pollShared(ctx, lost, func(*kgo.Record, int) { held++ })
	}
	lost.Close() // without a word about what it has
	last := shareConsumer(servers)
	defer last.Close()
	seen = map[int]int{}
	for len(seen) < shareRecords {
		pollShared(ctx, last, func(_ *kgo.Record, value int) { seen[value]++ })
	}
}

func shareConsumer(servers []string) *kgo.Client {
	client, err := kgo.NewClient(
		kgo.SeedBrokers(servers...),
		kgo.ConsumeTopics(shareTopic),
		kgo.ShareGroup(shareGroup),
	)
	succeed("the share consumer", err)
	return client
}

func pollShared(ctx context.Context, client *kgo.Client, use func(record *kgo.Record, value int)) {
	short, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
	defer cancel()
	client.PollFetches(short).EachRecord(func(record *kgo.Record) {
		value, err := strconv.Atoi(string(record.Value))
		succeed("the value of a record", err)
		use(record, value)
	})
	succeed("the story", ctx.Err())
}

func beginAtStart(ctx context.Context, client *kgo.Client) {
	request := kmsg.NewPtrIncrementalAlterConfigsRequest()
	resource := kmsg.NewIncrementalAlterConfigsRequestResource()
	resource.ResourceType = kmsg.ConfigResourceTypeGroupConfig
	resource.ResourceName = shareGroup
	config := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
	config.Name = "share.auto.offset.reset"
	config.Value = kmsg.StringPtr("earliest")
	resource.Configs = append(resource.Configs, config)
	request.Resources = append(request.Resources, resource)
	response, err := request.RequestWith(ctx, client)
	succeed("IncrementalAlterConfigs", err)
	expect("the error of IncrementalAlterConfigs", response.Resources[0].ErrorCode, int16(0))
}
