package plan

import "testing"

func TestFreeBytesMin(t *testing.T) {
	const gib = 1 << 30
	for total, want := range map[int64]int64{
		0:          0,
		512 << 20:  512 << 20 / 10, // a small disk keeps a tenth
		10 * gib:   gib,
		20 * gib:   gib,
		50 * gib:   gib,
		100 * gib:  2 * gib,
		4096 * gib: 4096 * gib / 50,
	} {
		if got := FreeBytesMin(total); got != want {
			t.Errorf("of %d bytes %d are kept free, want %d", total, got, want)
		}
	}
}
