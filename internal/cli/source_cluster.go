package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"k8s.io/client-go/rest"

	"karpenter/cloud"
)

const (
	// leaseName is the lease that the leading controller holds; its pod is the one that knows most.
	leaseName = "karpenter-leader-election"
	// controllerLabel selects the pods of the controller where there is no lease.
	controllerLabel = "app.kubernetes.io/name=karpenter"
	// metricsPort is where the controller serves its HTTP API.
	metricsPort = 8080
	// pageSize bounds how many objects the API server sends at once.
	pageSize = 1000
	// maxPage bounds an answer of the API server.
	maxPage = 512 << 20
)

// cluster is an API server that is only read from.
type cluster struct {
	client     *http.Client
	base, name string
}

func newCluster(config *rest.Config) (*cluster, error) {
	config = rest.CopyConfig(config)
	config.QPS, config.Burst = 50, 100
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	at, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	return &cluster{client: client, base: strings.TrimSuffix(at.String(), "/")}, nil
}

// listed is a kind that a decision is made from, and its path.
type listed struct {
	version, kind, path string
	// needed kinds must be readable.
	needed bool
}

// listedKinds are all of them, node classes included.
func listedKinds() []listed {
	all := slices.Clone(listedAlways)
	for i, k := range classKinds() {
		all = slices.Insert(all, 3+i, listed{k.GroupVersion().String(), k.GroupVersionKind.Kind, classPath(k), false})
	}
	return all
}

var listedAlways = []listed{
	{"karpenter.sh/v1", "NodePool", "/apis/karpenter.sh/v1/nodepools", true},
	{"karpenter.sh/v1", "NodeClaim", "/apis/karpenter.sh/v1/nodeclaims", true},
	{"karpenter.sh/v1alpha1", "NodeOverlay", "/apis/karpenter.sh/v1alpha1/nodeoverlays", false},
	{"v1", "Node", "/api/v1/nodes", true},
	{"v1", "Pod", "/api/v1/pods", true},
	{"v1", "Namespace", "/api/v1/namespaces", false},
	{"v1", "PersistentVolume", "/api/v1/persistentvolumes", false},
	{"v1", "PersistentVolumeClaim", "/api/v1/persistentvolumeclaims", false},
	{"apps/v1", "DaemonSet", "/apis/apps/v1/daemonsets", false},
	{"policy/v1", "PodDisruptionBudget", "/apis/policy/v1/poddisruptionbudgets", false},
	{"storage.k8s.io/v1", "StorageClass", "/apis/storage.k8s.io/v1/storageclasses", false},
	{"storage.k8s.io/v1", "CSINode", "/apis/storage.k8s.io/v1/csinodes", false},
	{"autoscaling.x-k8s.io/v1beta1", "CapacityBuffer", "/apis/autoscaling.x-k8s.io/v1beta1/capacitybuffers", false},
	{"v1", "PodTemplate", "/api/v1/podtemplates", false},
	// The rest is for default topology spread, which goes by their selectors.
	{"v1", "Service", "/api/v1/services", false},
	{"v1", "ReplicationController", "/api/v1/replicationcontrollers", false},
	{"apps/v1", "ReplicaSet", "/apis/apps/v1/replicasets", false},
	{"apps/v1", "StatefulSet", "/apis/apps/v1/statefulsets", false},
}

// list reads the cluster's objects as kubectl get -o json would print them.
func (c *cluster) list(ctx context.Context, workloads bool) ([]byte, error) {
	var out bytes.Buffer
	out.WriteString(`{"apiVersion":"v1","kind":"List","items":[`)
	first := true
	for _, k := range listedKinds() {
		if k.kind == "Service" && !workloads {
			break
		}
		items, err := c.items(ctx, k.path, url.Values{})
		var status *statusError
		switch {
		case err == nil:
		case k.kind == "NodePool" && errors.As(err, &status) && status.code == http.StatusNotFound:
			return nil, errNoKarpenter
		case k.needed || !errors.As(err, &status):
			return nil, fmt.Errorf("listing %ss of cluster %s: %w", k.kind, c.name, err)
		}
		for _, item := range items {
			if !first {
				out.WriteByte(',')
			}
			first = false
			// Items of a list do not say their kind.
			fmt.Fprintf(&out, `{"kind":%q,"apiVersion":%q,`, k.kind, k.version)
			out.Write(bytes.TrimLeft(item, "{ \n\t"))
		}
	}
	out.WriteString("]}")
	return out.Bytes(), nil
}

// nodeClasses lists the cluster's node classes, of the kinds that it has.
func (c *cluster) nodeClasses(ctx context.Context) ([]cloud.KnownClass, error) {
	var out []cloud.KnownClass
	var missing error
	served := false
	for _, kind := range classKinds() {
		items, err := c.items(ctx, classPath(kind), url.Values{})
		var status *statusError
		if errors.As(err, &status) && status.code == http.StatusNotFound {
			missing = fmt.Errorf("listing node classes of cluster %s: %w", c.name, err)
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("listing node classes of cluster %s: %w", c.name, err)
		}
		for _, item := range items {
			class, err := readClass(kind, item)
			if err != nil {
				return nil, fmt.Errorf("cluster %s: %w", c.name, err)
			}
			out = append(out, class)
		}
		served = true
	}
	if !served {
		return nil, missing
	}
	return out, nil
}

// exists asks for an object.
func (c *cluster) exists(ctx context.Context, path string) (bool, error) {
	_, err := c.get(ctx, path)
	var status *statusError
	if errors.As(err, &status) && status.code == http.StatusNotFound {
		return false, nil
	}
	return err == nil, err
}

// items lists the objects at a path, page by page.
func (c *cluster) items(ctx context.Context, path string, query url.Values) ([]json.RawMessage, error) {
	var all []json.RawMessage
	query.Set("limit", fmt.Sprint(pageSize))
	for {
		data, err := c.get(ctx, path+"?"+query.Encode())
		if err != nil {
			return nil, err
		}
		var page struct {
			Metadata struct {
				Continue string `json:"continue"`
			} `json:"metadata"`
			Items []json.RawMessage `json:"items"`
		}
		if err := json.Unmarshal(data, &page); err != nil {
			return nil, fmt.Errorf("reading the answer: %w", err)
		}
		all = append(all, page.Items...)
		if page.Metadata.Continue == "" {
			return all, nil
		}
		query.Set("continue", page.Metadata.Continue)
	}
}

// statusError is an answer other than 200.
type statusError struct {
	code int
	text string
}

// Error says what the API server said.
func (e *statusError) Error() string { return e.text }

func (c *cluster) get(ctx context.Context, path string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.base+path, http.NoBody)
	if err != nil {
		return nil, fmt.Errorf("asking the API server: %w", err)
	}
	request.Header.Set("Accept", "application/json")
	response, err := c.client.Do(request)
	if err != nil {
		return nil, fmt.Errorf("the API server does not answer: %w", err)
	}
	defer response.Body.Close()
	data, err := io.ReadAll(io.LimitReader(response.Body, maxPage))
	if err != nil {
		return nil, fmt.Errorf("reading the API server's answer: %w", err)
	}
	if response.StatusCode != http.StatusOK {
		var said struct {
			Message string `json:"message"`
		}
		_ = json.Unmarshal(data, &said) // what is no status is shown as its number
		return nil, &statusError{response.StatusCode, strings.TrimSpace(response.Status + " " + said.Message)}
	}
	return data, nil
}

// controllers lists where the cluster's controller may answer, the likeliest first: the pod that holds the lease, any pod of the
// controller.
func (c *cluster) controllers(ctx context.Context) []*endpoint {
	var out []*endpoint
	leases, err := c.items(ctx, "/apis/coordination.k8s.io/v1/leases", url.Values{"fieldSelector": {"metadata.name=" + leaseName}})
	if err == nil {
		for _, raw := range leases {
			var lease struct {
				Metadata struct {
					Namespace string `json:"namespace"`
				} `json:"metadata"`
				Spec struct {
					HolderIdentity string `json:"holderIdentity"`
				} `json:"spec"`
			}
			if json.Unmarshal(raw, &lease) == nil && lease.Spec.HolderIdentity != "" {
				pod, _, _ := strings.Cut(lease.Spec.HolderIdentity, "_")
				out = append(out, c.through(lease.Metadata.Namespace, pod))
			}
		}
	}
	// The lease names its holder by the name of its host, which is that of the pod almost everywhere. Pods that do not lead say so.
	pods, err := c.items(ctx, "/api/v1/pods", url.Values{"labelSelector": {controllerLabel}, "fieldSelector": {"status.phase=Running"}})
	if err != nil {
		return out
	}
	for _, raw := range pods {
		var pod struct {
			Metadata struct {
				Namespace string `json:"namespace"`
				Name      string `json:"name"`
			} `json:"metadata"`
		}
		if json.Unmarshal(raw, &pod) == nil && pod.Metadata.Name != "" {
			at := c.through(pod.Metadata.Namespace, pod.Metadata.Name)
			if !slices.ContainsFunc(out, func(e *endpoint) bool { return e.base == at.base }) {
				out = append(out, at)
			}
		}
	}
	return out
}

// ask asks the controllers, one after the other, until one answers; if none does, it says so in words.
func (c *cluster) ask(ctx context.Context, ask func(*endpoint) error) (silence string) {
	var failures []error
	for _, e := range c.controllers(ctx) {
		err := ask(e)
		if err == nil {
			return ""
		}
		failures = append(failures, err)
	}
	if len(failures) == 0 {
		return "no controller answers"
	}
	return "no controller answers (" + oneLine(errors.Join(failures...)) + ")"
}

// through reaches a pod of the controller by the API server's proxy.
func (c *cluster) through(namespace, pod string) *endpoint {
	return &endpoint{
		client: c.client, name: fmt.Sprintf("controller %s in %s", pod, namespace),
		base: fmt.Sprintf("%s/api/v1/namespaces/%s/pods/http:%s:%d/proxy", c.base, namespace, pod, metricsPort),
	}
}
