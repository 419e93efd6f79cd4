/* librdkafka of former years: creates a topic, writes with each codec, reads as a consumer group, and commits.
 * librdkafka_story SERVERS [BROKER_VERSION]: without a version, librdkafka asks for the versions (ApiVersions). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "rdkafka.h"

#define RECORDS 25
static int delivered;
static char failure[512];

static void check(int holds, const char *what) {
    if (!holds) {
        fprintf(stderr, "librdkafka %s: %s: %s\n", rd_kafka_version_str(), what, failure);
        exit(1);
    }
}

static void on_delivery(rd_kafka_t *client, const rd_kafka_message_t *message, void *opaque) {
    (void)client; (void)opaque;
    snprintf(failure, sizeof failure, "%s", rd_kafka_err2str(message->err));
    check(message->err == RD_KAFKA_RESP_ERR_NO_ERROR, "a record is not delivered");
    delivered++;
}

static void set(rd_kafka_conf_t *conf, const char *name, const char *value) {
    check(rd_kafka_conf_set(conf, name, value, failure, sizeof failure) == RD_KAFKA_CONF_OK, name);
}

static rd_kafka_t *new_client(rd_kafka_type_t type, const char *servers, const char *version, const char *codec,
                              const char *group) {
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    set(conf, "bootstrap.servers", servers);
    if (version) {
        set(conf, "api.version.request", "false");
        set(conf, "broker.version.fallback", version);
    }
    if (type == RD_KAFKA_PRODUCER) {
        set(conf, "compression.codec", codec);
        set(conf, "linger.ms", "100");
        rd_kafka_conf_set_dr_msg_cb(conf, on_delivery);
    } else {
        set(conf, "group.id", group);
        set(conf, "auto.offset.reset", "earliest");
        set(conf, "enable.auto.commit", "false");
    }
    rd_kafka_t *client = rd_kafka_new(type, conf, failure, sizeof failure);
    check(client != NULL, "no client");
    return client;
}

static void create(const char *servers, const char *topic) {
    rd_kafka_t *client = new_client(RD_KAFKA_PRODUCER, servers, NULL, "none", NULL);
    rd_kafka_NewTopic_t *wanted = rd_kafka_NewTopic_new(topic, 1, 1, failure, sizeof failure);
    rd_kafka_queue_t *queue = rd_kafka_queue_new(client);
    rd_kafka_CreateTopics(client, &wanted, 1, NULL, queue);
    rd_kafka_event_t *event = rd_kafka_queue_poll(queue, 30000);
    check(event != NULL, "no answer to CreateTopics");
    size_t count = 0;
    const rd_kafka_CreateTopics_result_t *result = rd_kafka_event_CreateTopics_result(event);
    check(result != NULL, "no result of CreateTopics");
    const rd_kafka_topic_result_t **topics = rd_kafka_CreateTopics_result_topics(result, &count);
    snprintf(failure, sizeof failure, "%s", rd_kafka_err2str(rd_kafka_topic_result_error(topics[0])));
    check(count == 1 && rd_kafka_topic_result_error(topics[0]) == 0, "the topic is not created");
    rd_kafka_event_destroy(event);
    rd_kafka_queue_destroy(queue);
    rd_kafka_NewTopic_destroy(wanted);
    rd_kafka_destroy(client);
}

static int write_records(const char *servers, const char *version, const char *topic, const char *codec, int first) {
    rd_kafka_t *client = new_client(RD_KAFKA_PRODUCER, servers, version, codec, NULL);
    delivered = 0;
    for (int i = 0; i < RECORDS; i++) {
        char value[32];
        int size = snprintf(value, sizeof value, "%d", first + i);
        rd_kafka_resp_err_t error = rd_kafka_producev(
            client, RD_KAFKA_V_TOPIC(topic), RD_KAFKA_V_KEY("k", 1), RD_KAFKA_V_VALUE(value, size),
            RD_KAFKA_V_MSGFLAGS(RD_KAFKA_MSG_F_COPY), RD_KAFKA_V_END);
        check(error == 0, rd_kafka_err2str(error));
    }
    check(rd_kafka_flush(client, 30000) == 0, "records are left");
    check(delivered == RECORDS, "records are missing");
    rd_kafka_destroy(client);
    return first + RECORDS;
}

static void read_records(const char *servers, const char *version, const char *topic, int first, int end) {
    rd_kafka_t *client = new_client(RD_KAFKA_CONSUMER, servers, version, NULL, topic);
    rd_kafka_poll_set_consumer(client);
    rd_kafka_topic_partition_list_t *topics = rd_kafka_topic_partition_list_new(1);
    rd_kafka_topic_partition_list_add(topics, topic, RD_KAFKA_PARTITION_UA);
    check(rd_kafka_subscribe(client, topics) == 0, "no subscription");
    int next = first;
    for (int polls = 0; next < end && polls < 600; polls++) {
        rd_kafka_message_t *message = rd_kafka_consumer_poll(client, 100);
        if (message && message->err == 0) {
            char value[32] = "";
            memcpy(value, message->payload, message->len < 31 ? message->len : 31);
            snprintf(failure, sizeof failure, "offset %d, value %s", (int)message->offset, value);
            check(message->offset == next && atoi(value) == next, "another record is expected");
            next++;
        } else if (message && message->err != RD_KAFKA_RESP_ERR__PARTITION_EOF) {
            snprintf(failure, sizeof failure, "%s", rd_kafka_err2str(message->err));
            check(0, "no records");
        }
        if (message)
            rd_kafka_message_destroy(message);
    }
    check(next == end, "records are missing");
    rd_kafka_resp_err_t error = rd_kafka_commit(client, NULL, 0);
    snprintf(failure, sizeof failure, "%s", rd_kafka_err2str(error));
    check(error == 0, "no commit");
    rd_kafka_consumer_close(client);
    rd_kafka_topic_partition_list_destroy(topics);
    rd_kafka_destroy(client);
}

int main(int count, char **arguments) {
    check(count > 1, "the bootstrap servers are missing");
    const char *servers = arguments[1], *version = count > 2 ? arguments[2] : NULL;
    static const char *codecs[] = {"none", "gzip", "snappy", "lz4", "zstd"};
    /* Before 0.10, librdkafka writes no lz4, and zstd only to brokers that list Fetch v10. */
    int is_old = version && !strncmp(version, "0.", 2), has_no_groups = version && !strncmp(version, "0.8", 3);
    int codec_count = version && strncmp(version, "0.1", 3) ? 3 : is_old ? 4 : 5;
    char topic[64];
    snprintf(topic, sizeof topic, "librdkafka-%s-%d", version ? version : "asks", (int)getpid());
    create(servers, topic);
    int end = 0;
    for (int i = 0; i < codec_count; i++)
        end = write_records(servers, version, topic, codecs[i], end);
    if (has_no_groups) {
        printf("story of librdkafka %s %s told (without a group)\n", rd_kafka_version_str(), version);
        return 0;
    }
    read_records(servers, version, topic, 0, end);
    end = write_records(servers, version, topic, "none", end);
    read_records(servers, version, topic, end - RECORDS, end);
    printf("story of librdkafka %s %s told\n", rd_kafka_version_str(), version ? version : "that asks for versions");
    return 0;
}
