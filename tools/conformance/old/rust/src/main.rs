use kafka::client::{FetchOffset, GroupOffsetStorage, KafkaClient, Compression};
use kafka::consumer::Consumer;
use kafka::producer::{Producer, Record, RequiredAcks};
use std::time::Duration;

fn story(codec: Compression, servers: &str, storage: GroupOffsetStorage, name: &str) {
    let topic = format!("rust-{}-{}", name, std::process::id());
    let hosts = vec![servers.to_owned()];
    let mut client = KafkaClient::new(hosts.clone());
    let _ = client.load_metadata(&[&topic]);
    std::thread::sleep(Duration::from_millis(300));
    client.load_metadata_all().unwrap();
    for codec in [codec] {
        let mut producer = Producer::from_hosts(hosts.clone()).with_compression(codec)
            .with_required_acks(RequiredAcks::All).create().unwrap();
        let records: Vec<Record<(), String>> = (0..20).map(|i| Record::from_value(&topic, format!("{}", i))).collect();
        producer.send_all(&records).unwrap();
    }
    let read = |expected: usize| -> usize {
        let mut consumer = Consumer::from_hosts(hosts.clone()).with_topic(topic.clone()).with_group(format!("g-{}", topic))
            .with_fallback_offset(FetchOffset::Earliest).with_offset_storage(Some(storage)).create().unwrap();
        let mut n = 0;
        for _ in 0..20 {
            for ms in consumer.poll().unwrap().iter() {
                for m in ms.messages() { assert_eq!(m.offset, n as i64); n += 1; }
                consumer.consume_messageset(ms).unwrap();
            }
            if n >= expected && expected > 0 { break; }
        }
        consumer.commit_consumed().unwrap();
        n
    };
    assert_eq!(read(20), 20);
    assert_eq!(read(0), 0);
    println!("story of rust kafka 0.10 {} told", name);
}

fn main() {
    let servers = std::env::args().nth(1).unwrap();
    for (codec, of) in [(Compression::NONE, "none"), (Compression::GZIP, "gzip"), (Compression::SNAPPY, "snappy")] {
        story(codec, &servers, GroupOffsetStorage::Zookeeper, &format!("zookeeper-{}", of));
        story(codec, &servers, GroupOffsetStorage::Kafka, &format!("kafka-{}", of));
    }
}
