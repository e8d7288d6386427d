package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
)

// The bars of consolidation.
const (
	barDecide = 1500.0 // ms for the whole decision, 100,000 pods
	barFirst  = 200.0  // ms until the first move, likewise
	barAfter  = 1.05   // of what a fresh packing of the same pods costs
	barEvicts = 2.0    // evictions for each pod on a removed node
)

// fleetRow is a cluster that has nodes, with what consolidation makes of it.
type fleetRow struct {
	Pods   int     `json:"pods"`
	Decide float64 `json:"decideMillis"`
	First  float64 `json:"firstMoveMillis"`
	Memory float64 `json:"allocatedMiB"`
	Before fleet   `json:"before"`
	After  fleet   `json:"after"`
	Moves  int     `json:"moves"`
	Evicts int     `json:"evicts"`
	// Removed counts the pods on the removed nodes.
	Removed int `json:"podsOnRemovedNodes"`
	// Fresh is what a packing of all pods from nothing costs.
	Fresh float64 `json:"freshPricePerHour"`
}

type fleet struct {
	Nodes int     `json:"nodes"`
	Price float64 `json:"pricePerHour"`
}

// fleets measures consolidation.
func (b *bench) fleets() ([]*fleetRow, error) {
	sizes := []int{10000}
	if !b.quick {
		sizes = append(sizes, 100000)
	}
	var out []*fleetRow
	fmt.Printf("\n%-22s %9s %9s %9s %7s %17s %21s %7s %8s\n", "fleet", "decide ms", "first ms", "MiB", "moves", "nodes", "$/h", "fresh", "evicts")
	for _, pods := range sizes {
		r := &fleetRow{Pods: pods}
		if err := b.fleet(r); err != nil {
			return nil, fmt.Errorf("fleet %d: %w", pods, err)
		}
		out = append(out, r)
		fmt.Println(r)
	}
	return out, nil
}

func (r *fleetRow) String() string {
	return fmt.Sprintf("%-22d %9.1f %9.1f %9.1f %7d %7d → %7d %9.2f → %9.2f %7.3f %8d", r.Pods, r.Decide, r.First, r.Memory, r.Moves, r.Before.Nodes, r.After.Nodes, r.Before.Price, r.After.Price, r.After.Price/r.Fresh, r.Evicts)
}

func (b *bench) fleet(r *fleetRow) error {
	data, err := exec.Command("python3", filepath.Join(b.material, "workload.py"), "fleet", "--pods", strconv.Itoa(r.Pods), "--seed", strconv.Itoa(b.seed)).Output()
	if err != nil {
		return fmt.Errorf("make snapshot: %w", explain(err))
	}
	snapshot, bare := filepath.Join(b.work, "fleet.json"), filepath.Join(b.work, "bare.json")
	if err := os.WriteFile(snapshot, data, 0o600); err != nil {
		return err
	}
	perNode, err := unbind(data, bare)
	if err != nil {
		return err
	}
	catalog := filepath.Join(b.material, "catalog.json")
	text, err := exec.Command(b.planner, "plan", "--consolidate", "-o", "json", "--snapshot", snapshot, "--catalog", catalog).Output()
	if err != nil {
		return fmt.Errorf("consolidate: %w", explain(err))
	}
	if err := r.read(text, perNode); err != nil {
		return err
	}
	fresh, err := figuresOf(b.planner, "plan", "-o", "json", "--snapshot", bare, "--catalog", catalog)
	if err != nil {
		return fmt.Errorf("fresh packing: %w", err)
	}
	r.Fresh = fresh.Total
	return nil
}

// read takes the figures from what the command printed.
func (r *fleetRow) read(text []byte, perNode map[string]int) error {
	var doc struct {
		*fleetRow
		Moves []struct {
			Remove []string `json:"remove"`
			Evicts int      `json:"evicts"`
		} `json:"moves"`
	}
	doc.fleetRow = r
	if err := json.Unmarshal(text, &doc); err != nil {
		return fmt.Errorf("read moves: %w", err)
	}
	r.Moves = len(doc.Moves)
	for _, m := range doc.Moves {
		r.Evicts += m.Evicts
		for _, n := range m.Remove {
			r.Removed += perNode[n]
		}
	}
	return nil
}

// unbind writes the same cluster without nodes and with every pod pending, and counts the pods that were on each node.
func unbind(data []byte, path string) (map[string]int, error) {
	var list struct {
		APIVersion string           `json:"apiVersion"`
		Kind       string           `json:"kind"`
		Items      []map[string]any `json:"items"`
	}
	if err := json.Unmarshal(data, &list); err != nil {
		return nil, fmt.Errorf("read snapshot: %w", err)
	}
	perNode := map[string]int{}
	kept := list.Items[:0]
	for _, item := range list.Items {
		switch item["kind"] {
		case "Node", "NodeClaim":
			continue
		case "Pod":
			spec, ok := item["spec"].(map[string]any)
			if !ok {
				return nil, fmt.Errorf("a pod of the snapshot has no spec")
			}
			if name, ok := spec["nodeName"].(string); ok {
				perNode[name]++
			}
			delete(spec, "nodeName")
			item["status"] = map[string]any{"phase": "Pending", "conditions": []any{map[string]any{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}}}
		}
		kept = append(kept, item)
	}
	list.Items = kept
	text, err := json.Marshal(list)
	if err != nil {
		return nil, fmt.Errorf("write snapshot: %w", err)
	}
	return perNode, os.WriteFile(path, text, 0o600)
}

// fleetBars says of each bar whether it holds.
func fleetBars(rows []*fleetRow, say func(bool, string, ...any)) {
	for _, r := range rows {
		if r.Pods >= 100000 {
			say(r.Decide <= barDecide, "fleet %d: decided in %.0f ms, at most %.0f", r.Pods, r.Decide, barDecide)
			say(r.First <= barFirst, "fleet %d: first move after %.0f ms, at most %.0f", r.Pods, r.First, barFirst)
		}
		say(r.After.Price <= barAfter*r.Fresh, "fleet %d: costs %.3f of a fresh packing afterwards, at most %.2f", r.Pods, r.After.Price/r.Fresh, barAfter)
		say(float64(r.Evicts) < barEvicts*float64(max(r.Removed, 1)), "fleet %d: %d evictions for %d pods on removed nodes, fewer than %.0f for each", r.Pods, r.Evicts, r.Removed, barEvicts)
	}
}
