package cli

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"k8s.io/client-go/tools/clientcmd"

	awsv1 "karpenter/api/aws/v1"
	"karpenter/internal/ledger"
	"karpenter/internal/state"
)

// controllerEnv names the variable that stands for --controller.
const controllerEnv = "KARPENTER_CONTROLLER"

// Source is where a command has a cluster from: a file, a controller, or the cluster's own objects. The zero value reads the
// cluster of the kubeconfig.
type Source struct {
	kubeconfig, context  string
	controller, snapshot string
	catalog              string
	offline              bool
	// now is the clock; time.Now if nil.
	now func() time.Time
	// builtIn is kept between loads, as a command that looks again and again needs the same each time.
	builtIn builtInCache
}

// flagSet is what flags are added to.
type flagSet interface {
	StringVar(p *string, name, value, usage string)
	BoolVar(p *bool, name string, value bool, usage string)
}

// AddFlags adds the flags that say where the cluster is.
func (s *Source) AddFlags(f flagSet) {
	f.StringVar(&s.kubeconfig, "kubeconfig", "", "kubeconfig of the cluster; like kubectl without it")
	f.StringVar(&s.context, "context", "", "context of the kubeconfig; the current one without it")
	f.StringVar(&s.controller, "controller", "", "address of the controller's metrics port, such as http://127.0.0.1:8080; $"+controllerEnv+" without it, else it is found through the cluster")
	f.StringVar(&s.snapshot, "snapshot", "", "read a file instead of a cluster: a recording, or a Kubernetes List in JSON; - is standard input")
	f.StringVar(&s.catalog, "catalog", "", "instance types, offerings and prices in JSON, instead of the controller's or the built-in ones")
	f.BoolVar(&s.offline, "offline", false, "ask no controller: read the cluster's objects, with the built-in catalogue")
}

// Loaded is a cluster at one moment.
type Loaded struct {
	Recording *ledger.Recording
	// From says in one line where it comes from.
	From string
	// Decisions asks the controller's ledger; nil where there is no controller.
	Decisions func(ledger.Query) ([]*ledger.Entry, error)
	// reached is the controller that answered, if any.
	reached *endpoint
	// nodeClasses lists the cluster's EC2NodeClasses; nil where they cannot be had.
	nodeClasses func(context.Context) ([]*awsv1.EC2NodeClass, error)
}

// clock is the time that the command lives in.
func (s *Source) clock() time.Time {
	if s.now != nil {
		return s.now()
	}
	return time.Now()
}

// Load reads the cluster.
func (s *Source) Load(ctx context.Context, stdin io.Reader) (*Loaded, error) {
	loaded, err := s.load(ctx, stdin)
	if err != nil {
		return nil, err
	}
	if s.catalog != "" {
		catalog, err := readCatalogFile(s.catalog)
		if err != nil {
			return nil, err
		}
		loaded.Recording.Classes = map[string]*state.Catalog{state.AnyClass: catalog}
	}
	return loaded, nil
}

func (s *Source) load(ctx context.Context, stdin io.Reader) (*Loaded, error) {
	if s.snapshot != "" {
		if s.controller != "" || s.offline {
			return nil, errors.New("--snapshot reads a file; give it without --controller and --offline")
		}
		return s.loadFile(ctx, stdin)
	}
	if url := cmp.Or(s.controller, os.Getenv(controllerEnv)); url != "" && !s.offline {
		e := &endpoint{base: url, name: "controller at " + url}
		return e.load(ctx)
	}
	return s.loadCluster(ctx)
}

// loadFile reads --snapshot.
func (s *Source) loadFile(ctx context.Context, stdin io.Reader) (*Loaded, error) {
	data, err := readInput(s.snapshot, stdin)
	if err != nil {
		return nil, fmt.Errorf("read snapshot: %w", err)
	}
	name := "snapshot " + s.snapshot
	if s.snapshot == "-" {
		name = "snapshot from standard input"
	}
	if isRecording(data) {
		recording, err := ledger.Read(data)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		return &Loaded{Recording: recording, From: fmt.Sprintf("%s, recorded %s", name, recording.At.UTC().Format(time.RFC3339))}, nil
	}
	return s.fromList(ctx, data, name)
}

// isRecording tells a recording from a plain List. A recording begins with its kind.
func isRecording(data []byte) bool {
	zipped := len(data) > 2 && data[0] == 0x1f && data[1] == 0x8b
	return zipped || bytes.Contains(data[:min(len(data), 256)], []byte(`"`+ledger.RecordingKind+`"`))
}

// fromList makes a recording of a Kubernetes List. Without --catalog what can be bought is what this program knows by itself.
func (s *Source) fromList(ctx context.Context, data []byte, name string) (*Loaded, error) {
	r := ledger.NewRecording(s.clock(), awsLabels)
	r.Objects = data
	loaded := &Loaded{Recording: r, From: name, nodeClasses: func(context.Context) ([]*awsv1.EC2NodeClass, error) { return listedClasses(data) }}
	if s.catalog != "" {
		return loaded, nil
	}
	facts, err := readFacts(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	catalogues, words, err := s.builtIn.load(ctx, facts)
	if err != nil {
		return nil, err
	}
	r.Classes = catalogues
	loaded.From += ": " + words
	return loaded, nil
}

// connect makes a client for the cluster of the kubeconfig.
func (s *Source) connect() (*cluster, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = s.kubeconfig
	found := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: s.context})
	config, err := found.ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("no cluster: %w; give --kubeconfig, --controller or --snapshot", err)
	}
	c, err := newCluster(config)
	if err != nil {
		return nil, err
	}
	raw, err := found.RawConfig()
	if err != nil {
		return nil, fmt.Errorf("reading the kubeconfig: %w", err)
	}
	at := cmp.Or(s.context, raw.CurrentContext)
	c.name, c.controller = cmp.Or(at, config.Host), controllerOf(&raw, at)
	return c, nil
}

// loadCluster asks the controller of the kubeconfig's cluster or, without one, the API server.
func (s *Source) loadCluster(ctx context.Context) (*Loaded, error) {
	cluster, err := s.connect()
	if err != nil {
		return nil, err
	}
	silence := "--offline is given"
	if !s.offline {
		var failures []error
		for _, e := range cluster.controllers(ctx) {
			loaded, err := e.load(ctx)
			if err == nil {
				loaded.nodeClasses = cluster.nodeClasses
				return loaded, nil
			}
			failures = append(failures, err)
		}
		silence = "no controller answers"
		if len(failures) > 0 {
			silence += " (" + oneLine(errors.Join(failures...)) + ")"
		}
	}
	data, err := cluster.list(ctx)
	if err != nil {
		return nil, err
	}
	return s.fromList(ctx, data, fmt.Sprintf("objects of cluster %s, %s", cluster.name, silence))
}

// readCatalogFile reads --catalog.
func readCatalogFile(path string) (*state.Catalog, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read catalogue: %w", err)
	}
	return state.ReadCatalog(raw)
}
