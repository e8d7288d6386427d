package disrupt

import (
	"strings"
	"testing"
)

func TestD58_AFifthRoundedUp(t *testing.T) {
	for _, c := range []struct {
		unhealthy, total int
		want             bool
	}{
		{1, 1, true},
		{1, 5, true},
		{2, 5, false},
		{2, 6, true},
		{3, 10, false},
		{3, 11, true},
		{200, 1000, true},
		{201, 1000, false},
	} {
		ok, why := MayRepair(c.unhealthy, c.total)
		if ok != c.want || ok != (why == "") || !ok && !strings.Contains(why, "20%") {
			t.Errorf("%d of %d: %v %q", c.unhealthy, c.total, ok, why)
		}
	}
}
