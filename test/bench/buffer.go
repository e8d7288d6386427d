package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
)

const (
	// barSpare is how long a plan for spare pods may take, as a multiple of one for as many pods like them that exist.
	barSpare = 1.5
	// sparePods is how many of them there are, and spareRuns how often each is measured; the fastest counts.
	sparePods = 2000
	spareRuns = 3
)

// spareRow is a plan for pods that exist, and one for as many spare pods of CapacityBuffers.
type spareRow struct {
	Name  string   `json:"snapshot"`
	Real  *figures `json:"real"`
	Spare *figures `json:"spare"`
}

func (r *spareRow) ratio() float64 { return r.Spare.SolveMillis / r.Real.SolveMillis }

// String is the row as a line of the table.
func (r *spareRow) String() string {
	return fmt.Sprintf("%-22s %9d %10.1f %10.1f %8.2f %10.4f %10.4f", r.Name+" spare", sparePods, r.Real.SolveMillis, r.Spare.SolveMillis, r.ratio(), r.Real.Total, r.Spare.Total)
}

// spares measures what spare pods cost.
func (b *bench) spares() ([]*spareRow, error) {
	fmt.Printf("\n%-22s %9s %10s %10s %8s %10s %10s\n", "buffers", "pods", "real ms", "spare ms", "ratio", "real $/h", "spare $/h")
	var out []*spareRow
	for _, name := range []string{"plain", "diverse"} {
		r := &spareRow{Name: name}
		if err := b.spare(r); err != nil {
			return nil, fmt.Errorf("%s spare: %w", name, err)
		}
		out = append(out, r)
		fmt.Println(r)
	}
	return out, nil
}

func (b *bench) spare(r *spareRow) error {
	data, err := exec.Command("python3", filepath.Join(b.material, "workload.py"), r.Name, "--pods", strconv.Itoa(sparePods), "--seed", strconv.Itoa(b.seed)).Output()
	if err != nil {
		return fmt.Errorf("make snapshot: %w", explain(err))
	}
	spare, err := buffered(data)
	if err != nil {
		return err
	}
	for _, x := range []struct {
		file string
		data []byte
		to   **figures
	}{{"real.json", data, &r.Real}, {"spare.json", spare, &r.Spare}} {
		path := filepath.Join(b.work, x.file)
		if err := os.WriteFile(path, x.data, 0o600); err != nil {
			return err
		}
		for range spareRuns {
			f, err := figuresOf(b.planner, "plan", "-o", "json", "--snapshot", path, "--catalog", filepath.Join(b.material, "catalog.json"))
			if err != nil {
				return fmt.Errorf("plan: %w", err)
			}
			if *x.to == nil || f.SolveMillis < (*x.to).SolveMillis {
				*x.to = f
			}
		}
	}
	return nil
}

// buffered is a snapshot with CapacityBuffers in place of its pods: one, with a PodTemplate, for pods that are alike.
func buffered(snapshot []byte) ([]byte, error) {
	var list struct {
		Kind  string           `json:"kind"`
		Items []map[string]any `json:"items"`
	}
	if err := json.Unmarshal(snapshot, &list); err != nil {
		return nil, fmt.Errorf("read snapshot: %w", err)
	}
	items := []map[string]any{}
	count, at := map[string]int{}, map[string]map[string]any{}
	var keys []string
	for _, item := range list.Items {
		if item["kind"] != "Pod" {
			items = append(items, item)
			continue
		}
		meta, _ := item["metadata"].(map[string]any)
		template := map[string]any{"metadata": map[string]any{"labels": meta["labels"]}, "spec": item["spec"]}
		text, err := json.Marshal([]any{meta["namespace"], template})
		if err != nil {
			return nil, err
		}
		if count[string(text)]++; count[string(text)] == 1 {
			keys = append(keys, string(text))
			at[string(text)] = map[string]any{"namespace": meta["namespace"], "template": template}
		}
	}
	for i, key := range keys {
		meta := map[string]any{"name": fmt.Sprintf("b%d", i), "namespace": at[key]["namespace"]}
		items = append(
			items, map[string]any{"apiVersion": "v1", "kind": "PodTemplate", "metadata": meta, "template": at[key]["template"]},
			map[string]any{"apiVersion": "autoscaling.x-k8s.io/v1beta1", "kind": "CapacityBuffer", "metadata": meta, "spec": map[string]any{
				"podTemplateRef": map[string]any{"name": meta["name"]}, "replicas": count[key],
			}},
		)
	}
	return json.Marshal(map[string]any{"apiVersion": "v1", "kind": "List", "items": items})
}
