package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/internal/ledger"
)

// record keeps everything that the controller decides from, as it is now.
func (t *trial) record(ctx context.Context, r *report) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, t.site.controllerURL("recording"), http.NoBody)
	if err != nil {
		return fmt.Errorf("asking for a recording: %w", err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return fmt.Errorf("asking for a recording: %w", err)
	}
	defer response.Body.Close()
	r.recording, err = io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = errors.New(response.Status)
	}
	if err != nil {
		return fmt.Errorf("asking for a recording: %w", err)
	}
	return nil
}

// scratch asks the plan command what the pods of a recording would cost if none of their nodes were there.
func (t *trial) scratch(ctx context.Context, r *report) error {
	data, err := emptied(r.recording)
	if err != nil {
		return err
	}
	file := filepath.Join(t.site.dir, "scratch-"+r.Phase+".json")
	if err := os.WriteFile(file, data, 0o600); err != nil {
		return fmt.Errorf("writing the recording: %w", err)
	}
	var out, messages bytes.Buffer
	cmd := exec.CommandContext(ctx, t.karpenter, "plan", "--snapshot", file, "-o", "json")
	cmd.Stdout, cmd.Stderr = &out, &messages
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%w: %s", err, strings.TrimSpace(messages.String()))
	}
	var plan struct {
		Pods     int     `json:"pods"`
		Unplaced int     `json:"unplaced"`
		Bound    float64 `json:"lowerBoundPerHour"`
		Nodes    []struct {
			Price float64 `json:"pricePerHour"`
		} `json:"nodes"`
	}
	if err := json.Unmarshal(out.Bytes(), &plan); err != nil {
		return fmt.Errorf("reading the plan: %w", err)
	}
	if r.Done && (plan.Pods != r.Pods || plan.Unplaced > 0) {
		t.note("%s %s: the plan from scratch is for %d pods of %d and does not place %d", t.Name, r.Phase, plan.Pods, r.Pods, plan.Unplaced)
	}
	r.Bound, r.PlanNodes, r.PlanPrice = plan.Bound, len(plan.Nodes), 0
	for _, n := range plan.Nodes {
		r.PlanPrice += n.Price
	}
	return nil
}

// emptied is a recording without the nodes of pools, and with their pods pending.
func emptied(recording []byte) ([]byte, error) {
	doc, err := ledger.Read(recording)
	if err != nil {
		return nil, err
	}
	doc.Facts = ledger.Facts{Resources: doc.Facts.Resources}
	var list struct {
		APIVersion string           `json:"apiVersion"`
		Kind       string           `json:"kind"`
		Items      []map[string]any `json:"items"`
	}
	if err := json.Unmarshal(doc.Objects, &list); err != nil {
		return nil, fmt.Errorf("reading the objects of a recording: %w", err)
	}
	list.Items = slices.DeleteFunc(list.Items, func(object map[string]any) bool { return !stays(object) })
	if doc.Objects, err = json.Marshal(list); err != nil {
		return nil, fmt.Errorf("writing the objects of a recording: %w", err)
	}
	var out bytes.Buffer
	err = doc.Write(&out)
	return out.Bytes(), err
}

// stays is whether an object is there before the first node of a pool is; a workload's pod becomes pending.
func stays(object map[string]any) bool {
	metadata, _ := object["metadata"].(map[string]any)
	labels, _ := metadata["labels"].(map[string]any)
	switch object["kind"] {
	case "NodeClaim", "CSINode":
		return false
	case "Node":
		_, ofPool := labels[karpv1.NodePoolLabelKey]
		return !ofPool
	case "Pod":
		spec, _ := object["spec"].(map[string]any)
		if metadata["namespace"] != metav1.NamespaceDefault {
			owners, _ := json.Marshal(metadata["ownerReferences"])
			return !bytes.Contains(owners, []byte("DaemonSet"))
		}
		delete(spec, "nodeName")
		object["status"] = map[string]any{"phase": corev1.PodPending, "conditions": []any{
			map[string]any{"type": corev1.PodScheduled, "status": corev1.ConditionFalse, "reason": corev1.PodReasonUnschedulable},
		}}
		return metadata["deletionTimestamp"] == nil
	}
	return true
}
