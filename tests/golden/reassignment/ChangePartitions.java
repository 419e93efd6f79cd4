package org.apache.kafka.controller;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.stream.Collectors;
import org.apache.kafka.common.DirectoryId;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.metadata.PartitionChangeRecord;
import org.apache.kafka.metadata.LeaderRecoveryState;
import org.apache.kafka.metadata.PartitionRegistration;
import org.apache.kafka.metadata.placement.PartitionAssignment;
import org.apache.kafka.server.common.ApiMessageAndVersion;
import org.apache.kafka.server.common.MetadataVersion;

/** Has Kafka's PartitionChangeBuilder decide cases. In: a case per line, fields split by "|". Out: the record, or "none".
 *  Arguments: the level of metadata.version, and whether eligible leader replicas are on. */
public class ChangePartitions {
    private static final Uuid TOPIC = new Uuid(1, 1);
    private static MetadataVersion metadataVersion = MetadataVersion.LATEST_PRODUCTION;
    private static boolean elrEnabled = true;

    static List<Integer> ints(String text) {
        return text.isEmpty() ? new ArrayList<>()
            : Arrays.stream(text.split(",")).map(Integer::valueOf).collect(Collectors.toCollection(ArrayList::new));
    }

    static int[] array(String text) {
        return ints(text).stream().mapToInt(Integer::intValue).toArray();
    }

    static Uuid directory(int broker) {
        return new Uuid(7, broker);
    }

    static String shown(List<Integer> ids) {
        return ids == null ? "-" : ids.stream().map(String::valueOf).collect(Collectors.joining(","));
    }

    public static void main(String[] args) throws Exception {
        if (args.length > 0) metadataVersion = MetadataVersion.fromFeatureLevel(Short.parseShort(args[0]));
        if (args.length > 1) elrEnabled = Boolean.parseBoolean(args[1]);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line; (line = in.readLine()) != null; ) {
            System.out.println(decided(line.split("\\|", -1)));
        }
    }

    static String decided(String[] f) {
        int[] replicas = array(f[0]);
        Uuid[] directories = Arrays.stream(replicas).mapToObj(ChangePartitions::directory).toArray(Uuid[]::new);
        PartitionRegistration partition = new PartitionRegistration.Builder()
            .setReplicas(replicas).setDirectories(directories).setIsr(array(f[1])).setLeader(Integer.parseInt(f[2]))
            .setAddingReplicas(array(f[3])).setRemovingReplicas(array(f[4])).setElr(array(f[5]))
            .setLastKnownElr(array(f[6])).setLeaderEpoch(5).setPartitionEpoch(9)
            .setLeaderRecoveryState(LeaderRecoveryState.of(Byte.parseByte(f[7]))).build();
        List<Integer> acceptable = ints(f[8]);
        PartitionChangeBuilder builder = new PartitionChangeBuilder(partition, TOPIC, 0, acceptable::contains,
            metadataVersion, Integer.parseInt(f[9]), elrEnabled);
        builder.setDefaultDirProvider(metadataVersion.isDirectoryAssignmentSupported()
            ? ChangePartitions::directory : broker -> DirectoryId.MIGRATING);
        if (f[10].equals("unclean")) builder.setElection(PartitionChangeBuilder.Election.UNCLEAN);
        if (f[10].equals("preferred")) builder.setElection(PartitionChangeBuilder.Election.PREFERRED);
        switch (f[11]) {
            case "isr": builder.setTargetIsr(ints(f[12])); break;
            case "unclean_shutdown": builder.setTargetIsr(ints(f[12])).setUncleanShutdownReplicas(ints(f[13])); break;
            case "target": {
                PartitionReassignmentReplicas moving = new PartitionReassignmentReplicas(
                    new PartitionAssignment(ints(f[0]), ChangePartitions::directory),
                    new PartitionAssignment(ints(f[12]), ChangePartitions::directory));
                if (!moving.replicas().equals(ints(f[0]))) builder.setTargetReplicas(moving.replicas());
                if (!moving.removing().isEmpty()) builder.setTargetRemoving(moving.removing());
                if (!moving.adding().isEmpty()) builder.setTargetAdding(moving.adding());
                break;
            }
            case "cancel": {
                PartitionReassignmentRevert revert = new PartitionReassignmentRevert(partition);
                if (revert.unclean() && !f[10].equals("unclean")) return "refused";
                builder.setTargetIsr(revert.isr()).setTargetReplicas(revert.replicas())
                    .setTargetRemoving(List.of()).setTargetAdding(List.of());
                break;
            }
            default: break;
        }
        Optional<ApiMessageAndVersion> built = builder.build();
        if (built.isEmpty()) return "none";
        PartitionChangeRecord record = (PartitionChangeRecord) built.get().message();
        List<Integer> dirs = record.directories() == null ? null
            : record.directories().stream().map(d -> (int) d.getLeastSignificantBits()).collect(Collectors.toList());
        return record.leader() + "|" + shown(record.isr()) + "|" + shown(record.replicas()) + "|"
            + shown(record.addingReplicas()) + "|" + shown(record.removingReplicas()) + "|"
            + shown(record.eligibleLeaderReplicas()) + "|" + shown(record.lastKnownElr()) + "|"
            + record.leaderRecoveryState() + "|" + shown(dirs);
    }
}
