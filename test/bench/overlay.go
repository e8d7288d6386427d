package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
)

const (
	barOverlaid  = 1.2 // of the time without overlays
	overlayPods  = 10000
	overlayCount = 50
	overlayRuns  = 5 // each way, of which the fastest counts
)

// overlayRow is a snapshot with and without NodeOverlays.
type overlayRow struct {
	Pods     int      `json:"pods"`
	Overlays int      `json:"overlays"`
	Without  *figures `json:"without"`
	With     *figures `json:"with"`
}

// overlaid measures what overlays cost. They are read with the objects, so that loading counts too.
func (b *bench) overlaid() (*overlayRow, error) {
	if b.quick || b.fleetOnly {
		return nil, nil
	}
	data, err := exec.Command("python3", filepath.Join(b.material, "workload.py"), "diverse", "--pods", strconv.Itoa(overlayPods), "--seed", strconv.Itoa(b.seed)).Output()
	if err != nil {
		return nil, fmt.Errorf("make snapshot: %w", explain(err))
	}
	plain, overlaid := filepath.Join(b.work, "plain.json"), filepath.Join(b.work, "overlaid.json")
	at := bytes.LastIndexByte(data, ']') // the end of the list's items
	if at < 0 {
		return nil, fmt.Errorf("the snapshot has no items")
	}
	more := bytes.Buffer{}
	more.Write(data[:at])
	for i := range overlayCount {
		text, err := json.Marshal(benchOverlay(i))
		if err != nil {
			return nil, err
		}
		more.WriteByte(',')
		more.Write(text)
	}
	more.Write(data[at:])
	for path, content := range map[string][]byte{plain: data, overlaid: more.Bytes()} {
		if err := os.WriteFile(path, content, 0o600); err != nil {
			return nil, err
		}
	}
	r := &overlayRow{Pods: overlayPods, Overlays: overlayCount}
	for range overlayRuns {
		for path, best := range map[string]**figures{plain: &r.Without, overlaid: &r.With} {
			f, err := figuresOf(b.planner, "plan", "-o", "json", "--snapshot", path, "--catalog", filepath.Join(b.material, "catalog.json"))
			if err != nil {
				return nil, fmt.Errorf("plan: %w", err)
			}
			if *best == nil {
				*best = f
			}
			(*best).SolveMillis, (*best).LoadMillis = math.Min((*best).SolveMillis, f.SolveMillis), math.Min((*best).LoadMillis, f.LoadMillis)
		}
	}
	return r, nil
}

// benchOverlay is one of many: discounts of families and sizes, of one capacity type or all, and devices.
func benchOverlay(i int) map[string]any {
	families := []string{"m5", "m6i", "m7i", "c5", "c6i", "c7i", "r5", "r6i", "r7i", "m6a"}
	need := []map[string]any{{"key": "karpenter.k8s.aws/instance-family", "operator": "In", "values": []string{families[i%len(families)], families[(i+3)%len(families)]}}}
	if i%3 == 0 {
		need = append(need, map[string]any{"key": "karpenter.sh/capacity-type", "operator": "In", "values": []string{"on-demand"}})
	}
	spec := map[string]any{"requirements": need, "weight": i + 1}
	switch i % 5 {
	case 0:
		spec["capacity"] = map[string]string{"example.com/device": "4"}
	case 1:
		spec["priceAdjustment"] = "+0.01"
	default:
		spec["priceAdjustment"] = fmt.Sprintf("-%d%%", 1+i%20)
	}
	return map[string]any{"apiVersion": "karpenter.sh/v1alpha1", "kind": "NodeOverlay", "metadata": map[string]any{"name": fmt.Sprintf("overlay-%02d", i)}, "spec": spec}
}

// holds prints the bar of overlays and says whether it holds.
func (r *overlayRow) holds() bool {
	if r == nil {
		return true
	}
	solve := r.With.SolveMillis / r.Without.SolveMillis
	all := (r.With.SolveMillis + r.With.LoadMillis) / (r.Without.SolveMillis + r.Without.LoadMillis)
	word, ok := "holds ", solve <= barOverlaid && all <= barOverlaid
	if !ok {
		word = "BROKEN"
	}
	fmt.Printf("%s  diverse %d with %d overlays: %.1f ms to solve, %.2f times that without (%.2f with loading), at most %.1f\n", word, r.Pods, r.Overlays, r.With.SolveMillis, solve, all, barOverlaid)
	return ok
}
