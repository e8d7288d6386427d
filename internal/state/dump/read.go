package dump

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"sync"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	bufferv1 "karpenter/api/autoscaling/v1beta1"
	v1 "karpenter/api/karpenter/v1"
	"karpenter/api/karpenter/v1alpha1"
	"karpenter/internal/state/toworld"
)

// readWorkers is how many goroutines parse items; more do not help, as memory bandwidth runs out first.
const readWorkers = 4

// Read reads a Kubernetes List as kubectl prints it: one JSON object with items. Items that cannot be read become
// problems.
func Read(data []byte) (*Objects, []Problem, error) {
	items, err := splitItems(data)
	if err != nil {
		return nil, nil, fmt.Errorf("read list: %w", err)
	}
	r := &reader{specs: map[string]*spec{}}
	parts := make([]*Objects, readWorkers)
	problems := make([][]Problem, readWorkers)
	var wg sync.WaitGroup
	for w := range readWorkers {
		wg.Add(1)
		go func() {
			defer wg.Done()
			parts[w] = &Objects{Ignored: map[string]int{}}
			lo, hi := w*len(items)/readWorkers, (w+1)*len(items)/readWorkers
			for i := lo; i < hi; i++ {
				if p := r.item(items[i], parts[w]); p != nil {
					if p.Name == "" {
						p.Name = fmt.Sprintf("items[%d]", i)
					}
					problems[w] = append(problems[w], *p)
				}
			}
		}()
	}
	wg.Wait()
	all := &Objects{Ignored: map[string]int{}}
	var out []Problem
	for w, o := range parts {
		all.Add(o)
		out = append(out, problems[w]...)
	}
	return all, out, nil
}

// Add appends the objects of o.
func (a *Objects) Add(o *Objects) {
	a.Pods = append(a.Pods, o.Pods...)
	a.Nodes = append(a.Nodes, o.Nodes...)
	a.Pools = append(a.Pools, o.Pools...)
	a.Claims = append(a.Claims, o.Claims...)
	a.Overlays = append(a.Overlays, o.Overlays...)
	a.DaemonSets = append(a.DaemonSets, o.DaemonSets...)
	a.Budgets = append(a.Budgets, o.Budgets...)
	a.Volumes = append(a.Volumes, o.Volumes...)
	a.VolumeUses = append(a.VolumeUses, o.VolumeUses...)
	a.Storage = append(a.Storage, o.Storage...)
	a.CSINodes = append(a.CSINodes, o.CSINodes...)
	a.Namespaces = append(a.Namespaces, o.Namespaces...)
	a.Services = append(a.Services, o.Services...)
	a.ReplicaSets = append(a.ReplicaSets, o.ReplicaSets...)
	a.Controllers = append(a.Controllers, o.Controllers...)
	a.StatefulSet = append(a.StatefulSet, o.StatefulSet...)
	a.Buffers = append(a.Buffers, o.Buffers...)
	a.Templates = append(a.Templates, o.Templates...)
	for k, n := range o.Ignored {
		a.Ignored[k] += n
	}
}

// splitItems finds the elements of the list's items without parsing them.
func splitItems(data []byte) ([]json.RawMessage, error) {
	var head struct {
		Kind  string          `json:"kind"`
		Items json.RawMessage `json:"items"`
	}
	at := bytes.Index(data, []byte(`"items"`))
	if at >= 0 && bytes.Count(data[:at], []byte("{"))-bytes.Count(data[:at], []byte("}")) == 1 { // the list's own items
		if items, err := splitArray(data[at+len(`"items"`):]); err == nil {
			return items, nil
		}
	}
	if err := json.Unmarshal(data, &head); err != nil {
		return nil, fmt.Errorf("not JSON: %w; give what kubectl get … -o json prints", err)
	}
	if head.Items == nil {
		return []json.RawMessage{data}, nil // a single object is a list of one
	}
	var items []json.RawMessage
	if err := json.Unmarshal(head.Items, &items); err != nil {
		return nil, fmt.Errorf("items is not a list: %w", err)
	}
	return items, nil
}

// splitArray cuts `: [a, b, …]` at the commas of its outermost level. What is between them is checked when it is parsed.
func splitArray(b []byte) ([]json.RawMessage, error) {
	i := bytes.IndexByte(b, '[')
	if i < 0 || len(bytes.Trim(b[:i], ": \t\r\n")) > 0 {
		return nil, fmt.Errorf("items is not a list")
	}
	var out []json.RawMessage
	depth, start, quoted := 0, i+1, false
	for i++; i < len(b); i++ {
		switch c := b[i]; {
		case quoted:
			if c == '\\' {
				i++
			} else if c == '"' {
				quoted = false
			}
		case c == '"':
			quoted = true
		case c == '{' || c == '[':
			depth++
		case (c == '}' || c == ']') && depth > 0:
			depth--
		case c == ',' && depth == 0 || c == ']':
			if item := bytes.TrimSpace(b[start:i]); len(item) > 0 {
				out = append(out, item)
			}
			if c == ']' {
				return out, nil
			}
			start = i + 1
		}
	}
	return nil, fmt.Errorf("items does not end")
}

// spec is a pod spec that was read once.
type spec struct {
	spec *corev1.PodSpec
	err  error
}

type reader struct {
	mu    sync.Mutex
	specs map[string]*spec
}

// podSpec parses a spec, or returns the one parsed before from the same bytes.
func (r *reader) podSpec(raw json.RawMessage) *spec {
	r.mu.Lock()
	s, ok := r.specs[string(raw)]
	r.mu.Unlock()
	if ok {
		return s
	}
	parsed := &corev1.PodSpec{}
	err := json.Unmarshal(raw, parsed)
	r.mu.Lock()
	defer r.mu.Unlock()
	if s, ok := r.specs[string(raw)]; ok {
		return s
	}
	s = &spec{spec: parsed, err: err}
	r.specs[string(raw)] = s
	return s
}

// item reads one object into o.
func (r *reader) item(raw json.RawMessage, o *Objects) *Problem {
	var head struct {
		Kind     string `json:"kind"`
		Metadata struct {
			Name      string `json:"name"`
			Namespace string `json:"namespace"`
		} `json:"metadata"`
	}
	kind := kindOf(raw)
	if kind == "Pod" {
		return r.pod(raw, o)
	}
	if err := json.Unmarshal(raw, &head); err != nil {
		p := NewProblem("object", "", "not readable: %v", err)
		return &p
	}
	name := toworld.FullName(head.Metadata.Namespace, head.Metadata.Name)
	var err error
	switch head.Kind {
	case "Pod":
		return r.pod(raw, o)
	case "Node":
		o.Nodes, err = decode(raw, o.Nodes, &corev1.Node{})
	case "NodePool":
		o.Pools, err = decode(raw, o.Pools, &v1.NodePool{})
	case "NodeOverlay":
		o.Overlays, err = decode(raw, o.Overlays, &v1alpha1.NodeOverlay{})
	case "NodeClaim":
		o.Claims, err = decode(raw, o.Claims, &v1.NodeClaim{})
	case "DaemonSet":
		o.DaemonSets, err = decode(raw, o.DaemonSets, &appsv1.DaemonSet{})
	case "PodDisruptionBudget":
		o.Budgets, err = decode(raw, o.Budgets, &policyv1.PodDisruptionBudget{})
	case "PersistentVolume":
		o.Volumes, err = decode(raw, o.Volumes, &corev1.PersistentVolume{})
	case "PersistentVolumeClaim":
		o.VolumeUses, err = decode(raw, o.VolumeUses, &corev1.PersistentVolumeClaim{})
	case "StorageClass":
		o.Storage, err = decode(raw, o.Storage, &storagev1.StorageClass{})
	case "CSINode":
		o.CSINodes, err = decode(raw, o.CSINodes, &storagev1.CSINode{})
	case "Namespace":
		o.Namespaces, err = decode(raw, o.Namespaces, &corev1.Namespace{})
	case "Service":
		o.Services, err = decode(raw, o.Services, &corev1.Service{})
	case "ReplicationController":
		o.Controllers, err = decode(raw, o.Controllers, &corev1.ReplicationController{})
	case "ReplicaSet":
		o.ReplicaSets, err = decode(raw, o.ReplicaSets, &appsv1.ReplicaSet{})
	case "StatefulSet":
		o.StatefulSet, err = decode(raw, o.StatefulSet, &appsv1.StatefulSet{})
	case "CapacityBuffer":
		o.Buffers, err = decode(raw, o.Buffers, &bufferv1.CapacityBuffer{})
	case "PodTemplate":
		o.Templates, err = decode(raw, o.Templates, &corev1.PodTemplate{})
	case "":
		p := NewProblem("object", name, "has no kind")
		return &p
	default:
		o.Ignored[head.Kind]++
	}
	if err != nil {
		p := NewProblem(head.Kind, name, "not readable: %v", err)
		return &p
	}
	return nil
}

// kindOf looks for a kind near the beginning, where most printers put it; "" means look properly.
func kindOf(raw []byte) string {
	head := raw[:min(len(raw), 64)]
	if bytes.Contains(head, []byte(`"kind":"Pod",`)) || bytes.Contains(head, []byte(`"kind": "Pod",`)) {
		return "Pod"
	}
	return ""
}

func decode[T any](raw json.RawMessage, list []*T, into *T) ([]*T, error) {
	if err := json.Unmarshal(raw, into); err != nil {
		return list, err
	}
	return append(list, into), nil
}

func (r *reader) pod(raw json.RawMessage, o *Objects) *Problem {
	var doc struct {
		Metadata metav1.ObjectMeta `json:"metadata"`
		Spec     json.RawMessage   `json:"spec"`
		Status   corev1.PodStatus  `json:"status"`
	}
	if err := json.Unmarshal(raw, &doc); err != nil {
		p := NewProblem("Pod", toworld.FullName(doc.Metadata.Namespace, doc.Metadata.Name), "not readable: %v", err)
		return &p
	}
	if len(doc.Spec) == 0 {
		p := NewProblem("Pod", toworld.FullName(doc.Metadata.Namespace, doc.Metadata.Name), "has no spec")
		return &p
	}
	node, shared := splitNode(doc.Spec)
	s := r.podSpec(shared)
	if s.err != nil {
		p := NewProblem("Pod", toworld.FullName(doc.Metadata.Namespace, doc.Metadata.Name), "spec is not readable: %v", s.err)
		return &p
	}
	pod := &corev1.Pod{ObjectMeta: doc.Metadata, Spec: *s.spec, Status: doc.Status}
	pod.Namespace, pod.Spec.NodeName = cmp.Or(pod.Namespace, metav1.NamespaceDefault), cmp.Or(node, pod.Spec.NodeName)
	o.Pods = append(o.Pods, pod)
	return nil
}

// splitNode takes the name of the node out of a spec that begins with it, as WriteList has them: the rest is the same for pods of
// one template.
func splitNode(raw json.RawMessage) (node string, rest json.RawMessage) {
	after, ok := bytes.CutPrefix(raw, []byte(nodeFirst+`"`))
	end := bytes.IndexByte(after, '"')
	if !ok || end < 0 || bytes.IndexByte(after[:end], '\\') >= 0 || len(after) < end+3 || after[end+1] != ',' {
		return "", raw
	}
	rest = json.RawMessage(append([]byte{'{'}, after[end+2:]...))
	return string(after[:end]), rest
}
