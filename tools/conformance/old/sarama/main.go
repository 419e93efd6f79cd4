package main

import (
	"fmt"
	"os"
	"time"

	"github.com/Shopify/sarama"
)

func story(servers string, name string, version sarama.KafkaVersion) error {
	config := sarama.NewConfig()
	config.Version = version
	config.Producer.Return.Successes = true
	config.Producer.RequiredAcks = sarama.WaitForAll
	config.ClientID = "sarama-" + name
	topic := fmt.Sprintf("sarama-%s-%d", name, time.Now().UnixNano())
	client, err := sarama.NewClient([]string{servers}, config)
	if err != nil {
		return err
	}
	defer client.Close()
	client.RefreshMetadata(topic)
	time.Sleep(300 * time.Millisecond)
	if err := client.RefreshMetadata(topic); err != nil {
		return err
	}
	sent := 0
	for _, codec := range []sarama.CompressionCodec{sarama.CompressionNone, sarama.CompressionGZIP, sarama.CompressionSnappy, sarama.CompressionLZ4} {
		if codec == sarama.CompressionLZ4 && !version.IsAtLeast(sarama.V0_10_0_0) {
			continue
		}
		config.Producer.Compression = codec
		producer, err := sarama.NewSyncProducer([]string{servers}, config)
		if err != nil {
			return err
		}
		var batch []*sarama.ProducerMessage
		for i := 0; i < 25; i++ {
			batch = append(batch, &sarama.ProducerMessage{Topic: topic, Key: sarama.StringEncoder("k"), Value: sarama.StringEncoder(fmt.Sprint(i))})
		}
		if err := producer.SendMessages(batch); err != nil {
			if all, ok := err.(sarama.ProducerErrors); ok {
				return fmt.Errorf("%v: %v", codec, all[0].Err)
			}
			return err
		}
		sent += 25
		producer.Close()
	}
	consumer, err := sarama.NewConsumerFromClient(client)
	if err != nil {
		return err
	}
	part, err := consumer.ConsumePartition(topic, 0, sarama.OffsetOldest)
	if err != nil {
		return err
	}
	for i := 0; i < sent; i++ {
		select {
		case m := <-part.Messages():
			if m.Offset != int64(i) {
				return fmt.Errorf("offset %d, not %d", m.Offset, i)
			}
		case <-time.After(10 * time.Second):
			return fmt.Errorf("only %d read", i)
		}
	}
	part.Close()
	offsets, err := sarama.NewOffsetManagerFromClient("g-"+topic, client)
	if err != nil {
		return err
	}
	managed, err := offsets.ManagePartition(topic, 0)
	if err != nil {
		return err
	}
	managed.MarkOffset(int64(sent), "here")
	managed.Close()
	offsets.Close()
	again, err := sarama.NewOffsetManagerFromClient("g-"+topic, client)
	if err != nil {
		return err
	}
	found, err := again.ManagePartition(topic, 0)
	if err != nil {
		return err
	}
	next, _ := found.NextOffset()
	if next != int64(sent) {
		return fmt.Errorf("committed %d", next)
	}
	fmt.Println("story of sarama", name, "told:", sent, "records")
	return nil
}

func main() {
	versions := map[string]sarama.KafkaVersion{"0.8.2": sarama.V0_8_2_0, "0.9.0": sarama.V0_9_0_0, "0.10.0": sarama.V0_10_0_0, "0.10.2": sarama.V0_10_2_0, "0.11": sarama.V0_11_0_0, "2.0": sarama.V2_0_0_0}
	for name, version := range versions {
		if err := story(os.Args[1], name, version); err != nil {
			fmt.Println("failed", name, err)
			os.Exit(1)
		}
	}
}
