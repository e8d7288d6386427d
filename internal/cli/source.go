package cli

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"karpenter/cloud"
	"karpenter/internal/forecast"
	"karpenter/internal/ledger"
	"karpenter/internal/model"
	"karpenter/internal/state"
	"karpenter/internal/state/dump"
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
	// as and groups are whom the API server is to take this for; timeout is how long one request may take, as kubectl reads it.
	as      string
	groups  []string
	timeout string
	// workloads has Services and owners of pods read, too.
	workloads bool
	// now is the clock; time.Now if nil.
	now func() time.Time
	// builtIn is kept between loads, as a command that looks again and again needs the same each time.
	builtIn builtInCache
}

// flagSet is what flags are added to.
type flagSet interface {
	StringVar(p *string, name, value, usage string)
	BoolVar(p *bool, name string, value bool, usage string)
	StringArrayVar(p *[]string, name string, value []string, usage string)
}

// AddFlags adds the flags that say where the cluster is.
func (s *Source) AddFlags(f flagSet) {
	s.addClusterFlags(f)
	f.StringVar(&s.snapshot, "snapshot", "", "read a file instead of a cluster: a recording, or a Kubernetes List in JSON; - is standard input")
	f.StringVar(&s.catalog, "catalog", "", "instance types, offerings and prices in JSON, instead of the controller's or the built-in ones")
	f.BoolVar(&s.offline, "offline", false, "ask no controller: read the cluster's objects, with the built-in catalogue")
}

// addClusterFlags adds those that lead to a live cluster.
func (s *Source) addClusterFlags(f flagSet) {
	f.StringVar(&s.kubeconfig, "kubeconfig", "", "kubeconfig of the cluster; like kubectl without it")
	f.StringVar(&s.context, "context", "", "context of the kubeconfig; the current one without it")
	f.StringVar(&s.controller, "controller", "", "address of the controller's metrics port, such as http://127.0.0.1:8080; $"+controllerEnv+" without it, else it is found through the cluster")
	f.StringVar(&s.as, "as", "", "user that the API server is to take this for, as in kubectl")
	f.StringArrayVar(&s.groups, "as-group", nil, "group that the API server is to take this for, as in kubectl; may be given several times")
	f.StringVar(&s.timeout, "request-timeout", "0", "how long one request to the API server may take, such as 30s; 0 is without end")
}

var errNoKubeconfig = errors.New("no cluster is known: there is no kubeconfig at ~/.kube/config, and $KUBECONFIG is not set; give --kubeconfig, --controller or --snapshot")

// Loaded is a cluster at one moment.
type Loaded struct {
	Recording *ledger.Recording
	// From says in one line where it comes from.
	From string
	// Decisions asks the controller's ledger; nil where there is no controller.
	Decisions func(ledger.Query) ([]*ledger.Entry, error)
	// Fleet is set instead of Recording where only it was asked for and a controller has it.
	Fleet *model.Fleet
	// Estimate says of prices that nobody in this cluster has said what they are; empty for a controller's and for a file's.
	Estimate string
	// plain says that it was made of objects alone, without a controller's settings.
	plain bool
	// exists asks whether the cluster has an object, by its path; nil where only what was read is known.
	exists func(ctx context.Context, path string) (bool, error)
	// reached is the controller that answered, if any.
	reached *endpoint
	// nodeClasses lists the cluster's node classes; nil where they cannot be had.
	nodeClasses func(context.Context) ([]cloud.KnownClass, error)
	// policies lists the cluster's LimitRanges and ResourceQuotas; nil where they cannot be had.
	policies func(context.Context) (forecast.Policies, error)
}

// about marks a price that is an estimate.
func about(estimate string) string {
	if estimate != "" {
		return "≈"
	}
	return ""
}

// dollars is a price in a sentence, marked or not.
var dollars = regexp.MustCompile(`≈?\$(\d)`)

// marked is a text in which every price has the mark of an estimate, if it is one.
func marked(text, estimate string) string {
	if estimate == "" {
		return text
	}
	return dollars.ReplaceAllString(text, "≈$$$1")
}

// printMarked has something printed, with the mark of an estimate on every price that is one. Headings of columns, which stand
// for all prices below them, have it from whoever prints them.
func printMarked(w io.Writer, estimate string, print func(io.Writer) error) error {
	var b strings.Builder
	if err := print(&b); err != nil {
		return err
	}
	_, err := io.WriteString(w, marked(b.String(), estimate))
	return err
}

// printEstimate says what prices with the mark of an estimate are.
func printEstimate(w io.Writer, estimate string) {
	if estimate != "" {
		fmt.Fprintf(w, "Prices are estimates (≈): the %s.\n", estimate)
	}
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
	return s.loadAs(ctx, stdin, (*endpoint).load)
}

// LoadFleet reads the cluster's nodes: from a controller as the rows that it has ready, which is a small part of a recording, or
// else like Load.
func (s *Source) LoadFleet(ctx context.Context, stdin io.Reader) (*Loaded, error) {
	if s.catalog != "" { // what a controller has ready is at its own prices
		return s.Load(ctx, stdin)
	}
	return s.loadAs(ctx, stdin, (*endpoint).loadFleet)
}

// asking asks a controller for as much as is needed.
type asking func(*endpoint, context.Context) (*Loaded, error)

func (s *Source) loadAs(ctx context.Context, stdin io.Reader, ask asking) (*Loaded, error) {
	loaded, err := s.load(ctx, stdin, ask)
	if err != nil {
		return nil, err
	}
	if s.catalog != "" {
		catalog, err := readCatalogFile(s.catalog)
		if err != nil {
			return nil, err
		}
		loaded.Recording.Classes = map[string]*dump.Catalog{state.AnyClass: catalog}
	}
	return loaded, nil
}

func (s *Source) load(ctx context.Context, stdin io.Reader, ask asking) (*Loaded, error) {
	if s.snapshot != "" {
		if s.controller != "" || s.offline {
			return nil, errors.New("--snapshot reads a file; give it without --controller and --offline")
		}
		return s.loadFile(ctx, stdin)
	}
	if url := cmp.Or(s.controller, os.Getenv(controllerEnv)); url != "" && !s.offline {
		e, err := endpointAt(url)
		if err != nil {
			return nil, err
		}
		return ask(e, ctx)
	}
	return s.loadCluster(ctx, ask)
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
	if first := bytes.TrimLeft(data, " \t\r\n"); len(first) == 0 || first[0] != '{' {
		return nil, fmt.Errorf("%s is neither a recording nor a Kubernetes List in JSON, as kubectl get … -o json prints it", name)
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
	r := ledger.NewRecording(s.clock(), knownLabels)
	r.Objects = data
	loaded := &Loaded{
		Recording: r, From: name, plain: true, nodeClasses: func(context.Context) ([]cloud.KnownClass, error) { return listedClasses(data) },
		policies: func(context.Context) (forecast.Policies, error) { return listedPolicies(data) },
	}
	var err error
	if r.Facts.Held, err = heldBack(data, r.At); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
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
	loaded.Estimate = strings.TrimPrefix(words, "prices are the ")
	return loaded, nil
}

// config finds the kubeconfig as kubectl does.
func (s *Source) config() clientcmd.ClientConfig {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = s.kubeconfig
	return clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{
		CurrentContext: s.context, Timeout: s.timeout, AuthInfo: clientcmdapi.AuthInfo{Impersonate: s.as, ImpersonateGroups: s.groups},
	})
}

// namespace is where names are looked for that have none: that of the kubeconfig's context, where it leads to the cluster.
func (s *Source) namespace() string {
	if s.snapshot == "" && cmp.Or(s.controller, os.Getenv(controllerEnv)) == "" {
		if space, _, err := s.config().Namespace(); err == nil {
			return space
		}
	}
	return metav1.NamespaceDefault
}

// connect makes a client for the cluster of the kubeconfig.
func (s *Source) connect() (*cluster, error) {
	if _, err := clientcmd.ParseTimeout(cmp.Or(s.timeout, "0")); err != nil {
		return nil, fmt.Errorf("--request-timeout is %q; give a length of time, such as 30s, or 0", s.timeout)
	}
	if len(s.groups) > 0 && s.as == "" {
		return nil, errors.New("--as-group goes with --as; give the user too")
	}
	found := s.config()
	config, err := found.ClientConfig()
	if err != nil {
		if clientcmd.IsEmptyConfig(err) {
			return nil, errNoKubeconfig
		}
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
	c.name = cmp.Or(s.context, raw.CurrentContext, config.Host)
	return c, nil
}

// loadCluster asks the controller of the kubeconfig's cluster or, without one, the API server.
func (s *Source) loadCluster(ctx context.Context, ask asking) (*Loaded, error) {
	cluster, err := s.connect()
	if err != nil {
		return nil, err
	}
	silence := "--offline is given"
	if !s.offline {
		var loaded *Loaded
		silence = cluster.ask(ctx, func(e *endpoint) (err error) {
			loaded, err = ask(e, ctx)
			return err
		})
		if silence == "" {
			loaded.nodeClasses, loaded.policies, loaded.exists = cluster.nodeClasses, cluster.policies, cluster.exists
			return loaded, nil
		}
	}
	data, err := cluster.list(ctx, s.workloads)
	if err != nil {
		return nil, err
	}
	loaded, err := s.fromList(ctx, data, fmt.Sprintf("objects of cluster %s, %s", cluster.name, silence))
	if err != nil {
		return nil, err
	}
	loaded.policies, loaded.exists = cluster.policies, cluster.exists
	return loaded, nil
}

// readCatalogFile reads --catalog.
func readCatalogFile(path string) (*dump.Catalog, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read catalogue: %w", err)
	}
	return dump.ReadCatalog(raw)
}
