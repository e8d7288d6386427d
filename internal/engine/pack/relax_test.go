package pack

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

func TestMaximizeSolvesTheDual(t *testing.T) {
	// Two offers: one gives (1, 0.5) of the need for 3, the other (0.25, 1) for 2.
	caps, prices := [][]float64{{1, 0.5}, {0.25, 1}}, []float64{3, 2}
	y, x := maximize(caps, prices, 2)
	worth := y[0] + y[1]
	cost := prices[0]*x[0] + prices[1]*x[1]
	if math.Abs(worth-cost) > 1e-9 {
		t.Errorf("worth %v, cost %v: they must meet at the optimum", worth, cost)
	}
	for r := range 2 {
		if got := caps[0][r]*x[0] + caps[1][r]*x[1]; got < 1-1e-9 {
			t.Errorf("row %d is covered %v times, want 1", r, got)
		}
	}
}

func TestMaximizeLeavesOutWhatNobodyOffers(t *testing.T) {
	y, _ := maximize([][]float64{{1, 0}}, []float64{2}, 2)
	if math.Abs(y[0]-2) > 1e-9 {
		t.Errorf("price %v, want 2", y[0])
	}
}

// TestPropertyDualityHolds checks weak duality: whatever the numbers, prices never promise more than any cover costs.
func TestPropertyDualityHolds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rows, cols := rapid.IntRange(1, 8).Draw(t, "offers"), rapid.IntRange(1, 5).Draw(t, "needs")
		caps, prices := make([][]float64, rows), make([]float64, rows)
		for i := range caps {
			caps[i] = make([]float64, cols)
			for j := range caps[i] {
				caps[i][j] = float64(rapid.IntRange(1, 100).Draw(t, "cap")) / 50
			}
			prices[i] = float64(rapid.IntRange(1, 100).Draw(t, "price"))
		}
		y, x := maximize(caps, prices, cols)
		worth, cost := 0.0, 0.0
		for _, v := range y {
			worth += v
		}
		for i := range caps {
			cost += prices[i] * x[i]
			used := 0.0
			for j, v := range y {
				used += caps[i][j] * v
			}
			if used > prices[i]*(1+1e-6)+1e-9 {
				t.Fatalf("offer %d gives %v for %v", i, used, prices[i])
			}
		}
		if math.Abs(worth-cost) > 1e-6*cost {
			t.Fatalf("worth %v, cost %v", worth, cost)
		}
	})
}
