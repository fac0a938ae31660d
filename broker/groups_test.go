package broker

import "testing"

// The partition of a group is Java's: Math.abs(id.hashCode()) % partitions, where the hash goes over UTF-16 units. The hashes
// are those that Java's documentation of String.hashCode gives by its formula.
func TestAGroupBelongsToThePartitionThatKafkaPutsItIn(t *testing.T) {
	for id, hash := range map[string]int64{
		"":                   0,
		"a":                  97,
		"abc":                96354,
		"hello":              99162322,
		"polygenelubricants": -1 << 31, // has no absolute value: Kafka takes 0
		"ä":                  228,
		"\U0001f600":         0xd83d*31 + 0xde00,
		"console-consumer-1": javaHash("console-consumer-1"),
	} {
		want := hash
		if want < 0 {
			want = -want
		}
		if hash == -1<<31 {
			want = 0
		}
		for _, partitions := range []int{1, 7, 50} {
			if got := groupPartition(id, partitions); got != int(want)%partitions {
				t.Errorf("group %q of %d partitions: %d, want %d", id, partitions, got, int(want)%partitions)
			}
		}
	}
}

// javaHash is the formula s[0]*31^(n-1) + ... + s[n-1] of an ASCII string, modulo 2^32 and signed.
func javaHash(s string) int64 {
	sum, power := uint32(0), uint32(1)
	for i := len(s) - 1; i >= 0; i-- {
		sum += uint32(s[i]) * power
		power *= 31
	}
	return int64(int32(sum))
}
