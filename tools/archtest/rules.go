package archtest

// Rule says what one part of the tree may import and use. A package is judged by the first rule that matches it.
type Rule struct {
	// Package is a path inside the module; with a trailing "/..." it covers the tree below it too.
	Package string
	// Imports are the packages of this module that it may import, each by its path; with a trailing "/..." the tree below it too.
	// What has a dot in its first element is another module, with everything in it. The standard library is always allowed.
	Imports []string
	// Bans are the names that its files may not use, tests excepted.
	Bans []Ban
	// Reason says why the line stands where it does.
	Reason string
}

// Ban is a name of the standard library that is kept out of a package: Name "*" means all of it.
type Ban struct{ Path, Name, Instead string }

var (
	banClock = []Ban{
		{"time", "Now", "take now as an argument or an injected clock"},
		{"time", "Since", "take now as an argument or an injected clock"},
		{"time", "Until", "take now as an argument or an injected clock"},
	}
	banRandom = []Ban{
		{"math/rand", "*", "take a seeded source as an argument"},
		{"math/rand/v2", "*", "take a seeded source as an argument"},
	}
	banEnv     = []Ban{{"os", "Getenv", "read the environment in operator or local, and pass options"}, {"os", "LookupEnv", "read the environment in operator or local, and pass options"}}
	banContext = []Ban{{"context", "Background", "take a context as an argument"}, {"context", "TODO", "take a context as an argument"}}
	banIO      = []Ban{{"os", "*", "the engine does no I/O"}, {"net", "*", "the engine does no I/O"}, {"net/http", "*", "the engine does no I/O"}, {"log", "*", "the engine returns reasons"}, {"log/slog", "*", "the engine returns reasons"}}
	banSeeded  = []Ban{ // a source made from a seed is fine, the shared one is not
		{"math/rand", "*", "use math/rand/v2 with a seed"},
		{"math/rand/v2", "Int", "draw from a seeded source"},
		{"math/rand/v2", "IntN", "draw from a seeded source"},
		{"math/rand/v2", "Float64", "draw from a seeded source"},
		{"math/rand/v2", "N", "draw from a seeded source"},
		{"math/rand/v2", "Perm", "draw from a seeded source"},
		{"math/rand/v2", "Shuffle", "draw from a seeded source"},
	}
)

func bans(lists ...[]Ban) []Ban {
	var all []Ban
	for _, list := range lists {
		all = append(all, list...)
	}
	return all
}

var (
	kubernetes = []string{"k8s.io/api", "k8s.io/apimachinery"}
	clients    = []string{"k8s.io/client-go", "k8s.io/utils", "k8s.io/apiextensions-apiserver", "sigs.k8s.io/controller-runtime", "sigs.k8s.io/yaml"}
)

func imports(lists ...[]string) []string {
	var all []string
	for _, list := range lists {
		all = append(all, list...)
	}
	return all
}

// Rules is the import table of docs/design/architecture.md: down the list only.
var Rules = []Rule{
	{
		Package: "internal/engine/world", Imports: []string{"internal/engine/req"},
		Bans:   bans(banClock, banRandom, banEnv, banContext, banIO),
		Reason: "plain values that every decision is a function of; offerings and pools hold requirement sets",
	},
	{
		Package: "internal/engine/req", Bans: bans(banClock, banRandom, banEnv, banContext, banIO),
		Reason: "requirement algebra stands alone",
	},
	{
		Package: "internal/engine/why", Bans: bans(banClock, banRandom, banEnv, banContext, banIO),
		Reason: "reasons are data, printed by whoever shows them",
	},
	{
		Package: "internal/engine/disrupt/...",
		Imports: []string{"internal/engine/world", "internal/engine/req", "internal/engine/why", "internal/engine/pack"},
		Bans:    bans(banClock, banSeeded, banEnv, banContext, banIO),
		Reason:  "a consolidation move is a packing question",
	},
	{
		Package: "internal/engine/...", Imports: []string{"internal/engine/world", "internal/engine/req", "internal/engine/why"},
		Bans:   bans(banClock, banSeeded, banEnv, banContext, banIO),
		Reason: "the engine is pure: standard library only, now and seed are arguments",
	},
	{
		Package: "api/crds", Imports: []string{"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions", "sigs.k8s.io/yaml"},
		Bans:   bans(banClock, banRandom, banEnv, banContext),
		Reason: "the generated definitions, embedded and parsed",
	},
	{
		Package: "api/...", Imports: imports(kubernetes, []string{"api/...", "github.com/mitchellh/hashstructure/v2", "sigs.k8s.io/yaml"}),
		Bans:   bans(banClock, banRandom, banEnv, banContext),
		Reason: "types are importable by anyone: Kubernetes' own types, the drift hash, YAML for the offline converter",
	},
	{
		Package: "internal/state/trim", Imports: imports(kubernetes, []string{"api/karpenter/..."}),
		Bans:   bans(banClock, banRandom, banEnv, banContext),
		Reason: "what caches keep of objects",
	},
	{
		Package: "internal/state/toworld", Imports: imports(kubernetes, []string{"internal/engine/world", "internal/engine/req", "internal/state/trim", "api/karpenter/...", "api/autoscaling/...", "k8s.io/component-helpers"}),
		Bans:   bans(banClock, banRandom, banEnv, banContext),
		Reason: "what one object means in the engine's world",
	},
	{
		Package: "internal/state/dump", Imports: imports(kubernetes, []string{"internal/engine/world", "internal/state/toworld", "internal/state/trim", "api/karpenter/...", "api/autoscaling/..."}),
		Bans:   bans(banClock, banRandom, banEnv, banContext),
		Reason: "text in, objects out, and back; knows no mirror",
	},
	{
		Package: "internal/state", Imports: imports(kubernetes, []string{"internal/state/...", "internal/engine/world", "internal/engine/req", "internal/engine/disrupt", "internal/engine/life", "api/...", "k8s.io/client-go", "k8s.io/component-helpers", "sigs.k8s.io/yaml"}),
		Bans:   bans(banClock, banRandom, banEnv, banContext),
		Reason: "turns watch events into snapshots, decides nothing",
	},
	{
		Package: "cloud", Imports: imports(kubernetes, []string{"internal/engine/world", "internal/engine/req", "api/..."}),
		Bans:   bans(banClock, banRandom, banEnv, banContext),
		Reason: "the provider interface",
	},
	{
		Package: "internal/wait", Imports: imports(kubernetes, []string{"k8s.io/client-go", "k8s.io/utils"}),
		Bans:   bans(banClock, banRandom, banEnv, banContext),
		Reason: "how everything above waits, in real and in simulated time",
	},
	{
		Package: "cloud/kit", Imports: imports(kubernetes, []string{"internal/wait", "cloud", "internal/engine/world", "internal/engine/req", "api/karpenter/..."}),
		Bans:   bans(banClock, banRandom, banEnv, banContext),
		Reason: "what every provider needs knows no cloud",
	},
	{
		Package: "internal/cloud/simaws/...", Imports: []string{"internal/cloud/simaws/...", "github.com/pelletier/go-toml/v2", "go.yaml.in/yaml/v3"},
		Bans:   bans(banSeeded, banEnv),
		Reason: "speaks AWS's protocols without AWS's types, so that an error shared with the SDK cannot hide; libraries read its files",
	},
	{
		Package: "internal/cloud/aws/userdata", Imports: []string{"github.com/pelletier/go-toml/v2", "sigs.k8s.io/yaml"}, Bans: bans(banClock, banRandom, banEnv, banContext),
		Reason: "bootstrap text is a pure function of its inputs; Bottlerocket's is TOML, nodeadm's is YAML",
	},
	{
		Package: "internal/cloud/aws/formula", Imports: []string{"github.com/google/cel-go"}, Bans: bans(banClock, banRandom, banEnv, banContext),
		Reason: "expressions are CEL, and a pure function of their inputs",
	},
	{
		Package: "internal/cloud/aws/shape", Imports: imports(kubernetes, []string{"internal/engine/world", "internal/engine/req", "api/..."}),
		Bans:   bans(banClock, banRandom, banEnv, banContext),
		Reason: "what a type amounts to is a pure function of its facts",
	},
	{
		Package: "cloud/setting", Bans: bans(banClock, banRandom, banEnv, banContext),
		Reason: "settings are values that flags and environment are read into; who reads them is operator",
	},
	{
		Package: "internal/cloud/aws/class",
		Imports: imports(kubernetes, clients, []string{"internal/wait", "internal/control/...", "cloud", "internal/engine/why", "internal/ledger", "internal/meter", "api/..."}),
		Bans:    bans(banClock, banRandom, banEnv, banContext),
		Reason:  "reconcilers of what is AWS's own; they reach it through interfaces that the provider meets",
	},
	{
		Package: "internal/cloud/aws/awsplug",
		Imports: imports(kubernetes, clients, []string{"cloud/plug", "cloud/setting", "internal/control", "internal/control/claim", "internal/cloud/aws", "internal/cloud/aws/class", "internal/meter", "api/...", "github.com/aws"}),
		Reason:  "wiring of the AWS provider: the SDK's own environment is read here",
	},
	{
		Package: "internal/cloud/aws/...",
		Imports: imports(kubernetes, clients, []string{"internal/wait", "cloud", "cloud/kit", "internal/cloud/aws/...", "internal/meter", "internal/engine/world", "internal/engine/req", "api/...", "github.com/aws"}),
		Bans:    bans(banClock, banRandom, banEnv, banContext),
		Reason:  "the only importer of the AWS SDK",
	},
	{
		Package: "internal/cloud/capi/kinds", Imports: imports(kubernetes), Bans: bans(banClock, banRandom, banEnv, banContext),
		Reason: "what is read of Cluster API's objects; its own module would be far larger",
	},
	{
		Package: "internal/cloud/capi/class",
		Imports: imports(kubernetes, clients, []string{"internal/control/...", "internal/cloud/capi/kinds", "internal/engine/why", "internal/ledger", "internal/meter", "api/..."}),
		Bans:    bans(banClock, banRandom, banEnv, banContext),
		Reason:  "reconcilers of what is Cluster API's own",
	},
	{
		Package: "internal/cloud/capi/capiplug",
		Imports: imports(kubernetes, clients, []string{"cloud/plug", "cloud/setting", "internal/wait", "internal/cloud/capi", "internal/cloud/capi/class", "internal/cloud/capi/kinds", "api/...", "sigs.k8s.io/yaml"}),
		Reason:  "wiring of the Cluster API provider: kubeconfig and price file are read here",
	},
	{
		Package: "internal/cloud/capi",
		Imports: imports(kubernetes, clients, []string{"internal/wait", "cloud", "cloud/kit", "internal/cloud/capi/kinds", "internal/engine/world", "internal/engine/req", "api/..."}),
		Bans:    bans(banClock, banRandom, banEnv, banContext),
		Reason:  "the only one that scales what Cluster API has",
	},
	{
		Package: "cloud/cloudtest", Imports: imports(kubernetes, []string{"cloud", "internal/engine/world", "internal/engine/req", "api/..."}),
		Bans:   bans(banClock, banRandom, banEnv),
		Reason: "the conformance suite knows the interface only",
	},
	{
		Package: "internal/meter", Imports: []string{"github.com/prometheus/client_golang", "github.com/prometheus/common"},
		Bans:   bans(banClock, banRandom, banEnv, banContext),
		Reason: "every metric in one table, for whoever counts",
	},
	{
		Package: "internal/model", Imports: imports(kubernetes, []string{"internal/state", "internal/state/dump", "internal/engine/...", "api/..."}),
		Bans:   bans(banClock, banRandom, banEnv, banContext, banIO),
		Reason: "what there is and why, once, for whoever shows it",
	},
	{
		Package: "internal/ledger", Imports: imports(kubernetes, []string{"internal/model", "internal/state", "internal/state/dump", "internal/engine/...", "api/..."}),
		Bans:   bans(banClock, banRandom, banEnv, banContext),
		Reason: "decisions as data: whoever decides writes, whoever shows reads",
	},
	{
		Package: "internal/explain", Imports: imports(kubernetes, []string{"internal/model", "internal/ledger", "internal/state", "internal/state/dump", "internal/engine/...", "api/..."}),
		Bans:   bans(banClock, banRandom, banEnv, banContext),
		Reason: "answers questions about a view with the engine's own reasons, for commands and dashboard alike",
	},
	{
		Package: "internal/control/...",
		Imports: imports(kubernetes, clients, []string{"internal/control/...", "internal/wait", "internal/model", "internal/ledger", "internal/state", "internal/state/dump", "internal/engine/...", "cloud", "internal/meter", "api/...", "github.com/go-logr/logr"}),
		Bans:    bans(banClock, banRandom, banEnv, banContext),
		Reason:  "thin reconcilers: the only writers to Kubernetes; a cloud is what package cloud says, whichever it is; logr is how the manager hands on who reconciles what",
	},
	{
		Package: "cloud/plug",
		Imports: imports(kubernetes, clients, []string{"internal/control", "internal/control/claim", "cloud", "cloud/kit", "internal/ledger", "internal/meter", "cloud/setting"}),
		Bans:    bans(banClock, banRandom, banEnv, banContext),
		Reason:  "the socket that providers are plugged into knows none of them",
	},
	{
		Package: "internal/clouds", Imports: []string{"cloud/plug", "internal/cloud/aws/awsplug", "internal/cloud/capi/capiplug"},
		Reason: "which providers our programs hold",
	},
	{
		Package: "internal/web/...", Imports: imports(kubernetes, []string{"internal/model", "internal/ledger", "internal/explain", "internal/state", "internal/state/dump", "internal/engine/...", "api/..."}),
		Bans:   bans(banClock, banRandom, banEnv, banContext),
		Reason: "reads state, writes nothing",
	},
	{
		Package: "internal/operator/...",
		Imports: imports(kubernetes, clients, []string{"internal/operator/...", "internal/control/...", "internal/wait", "internal/meter", "internal/web", "internal/model", "internal/ledger", "internal/explain", "internal/state/...", "cloud/plug", "cloud/setting", "cloud", "internal/engine/...", "api/...", "github.com/go-logr/logr", "github.com/prometheus/client_golang", "github.com/spf13/cobra"}),
		Reason:  "wiring: the real clock, environment and sockets are made here",
	},
	{
		Package: "internal/local/plane", Imports: imports(kubernetes, clients),
		Reason: "starts processes; the test harness uses it without the rest of local",
	},
	{
		Package: "internal/local/infra", Imports: imports(kubernetes, clients, []string{"internal/local/plane", "github.com/go-logr/logr"}),
		Reason: "the kinds of an infrastructure provider of Cluster API: tests use it without the rest of local",
	},
	{
		Package: "internal/local/scenario",
		Imports: imports(kubernetes, clients, []string{"internal/local/plane", "internal/cloud/simaws", "internal/cloud/simaws/catalog", "api/..."}),
		Reason:  "a script knows a cluster by what it is given of it",
	},
	{
		Package: "internal/local/...",
		Imports: imports(kubernetes, clients, []string{"internal/local/...", "internal/clouds", "internal/operator/...", "internal/state", "internal/state/dump", "internal/engine/...", "internal/cloud/simaws", "internal/cloud/simaws/catalog", "api/...", "github.com/spf13/cobra"}),
		Reason:  "a whole cluster on one computer",
	},
	{
		Package: "internal/sim", Imports: imports(kubernetes, clients, []string{"internal/sim/kube", "internal/sim/filters", "internal/engine/why", "internal/operator", "internal/control", "cloud", "internal/cloud/aws", "internal/cloud/aws/awsplug", "internal/cloud/simaws", "internal/cloud/simaws/catalog", "internal/wait", "api/...", "github.com/aws", "github.com/go-logr/logr"}),
		Bans:   bans(banClock, banSeeded, banEnv),
		Reason: "a cluster in simulated time around the wiring of operator",
	},
	{
		Package: "internal/sim/mutants/...", Imports: []string{"internal/sim", "internal/sim/mutants/..."},
		Reason: "defects that are put into a copy of the code, to see that they are found",
	},
	{
		Package: "internal/sim/filters", Imports: imports(kubernetes, []string{"k8s.io/component-helpers", "github.com/go-logr/logr"}),
		Bans:   bans(banClock, banRandom, banEnv),
		Reason: "which nodes kube-scheduler accepts for a pod, apart from the engine's own idea of it",
	},
	{
		Package: "internal/sim/kube", Imports: imports(kubernetes, clients, []string{"k8s.io/apiserver", "api/crds"}),
		Bans:   bans(banClock, banSeeded, banEnv),
		Reason: "an API server in memory: the same calls give the same answers; apiextensions' own packages read and check our definitions",
	},
	{
		Package: "internal/forecast", Imports: imports(kubernetes, []string{"k8s.io/apiextensions-apiserver", "cloud", "internal/model", "internal/ledger", "internal/state", "internal/state/dump", "internal/engine/...", "api/..."}),
		Bans:   bans(banClock, banRandom, banEnv, banContext),
		Reason: "carries decisions out on copies of objects, and nowhere else",
	},
	{
		Package: "internal/cli/builtin", Imports: imports(kubernetes, []string{"cloud", "internal/cloud/aws", "internal/cloud/capi", "internal/cloud/simaws", "internal/control", "internal/engine/life", "api/...", "github.com/aws"}),
		Bans:   bans(banClock, banRandom, banEnv, banContext),
		Reason: "what the AWS simulator sells, worked out by the real provider: for commands without network, and no part of the controller",
	},
	{
		Package: "internal/cli/...",
		Imports: imports(kubernetes, clients, []string{"internal/cli/...", "internal/forecast", "internal/operator", "internal/sim", "internal/web", "internal/model", "internal/ledger", "internal/explain", "internal/state", "internal/state/dump", "internal/engine/...", "cloud", "internal/cloud/aws/awsplug", "internal/cloud/simaws", "api/...", "golang.org/x/term", "github.com/spf13/cobra", "github.com/spf13/pflag"}),
		Bans:    bans(banRandom, banContext),
		Reason:  "commands stop before anything is carried out",
	},
	{
		Package: "cmd/karpenter", Imports: []string{"internal/cli", "internal/clouds", "internal/operator", "internal/local", "github.com/spf13/cobra"},
		Reason: "picks a subcommand",
	},
	{
		Package: "cmd/controller", Imports: []string{"internal/clouds", "cloud/controller"},
		Reason: "what the image holds: the controller alone",
	},
	{
		Package: "cloud/controller", Imports: []string{"cloud/plug", "internal/operator", "github.com/spf13/cobra"},
		Reason: "the controller as a program, for whoever has a provider",
	},
	{
		Package: "test/...", Imports: []string{"*"},
		Reason: "tests may look at everything",
	},
	{
		Package: "tools/...", Imports: []string{"*"},
		Reason: "development tools are not shipped",
	},
}

// Closure says what a program must not hold, by whatever way it gets there.
type Closure struct {
	// Package is the program, Never are packages of this module, as in Rule.
	Package string
	Never   []string
	Reason  string
}

// Closures are the programs that are kept small.
var Closures = []Closure{
	{
		Package: "cmd/controller", Never: []string{"internal/cloud/simaws/...", "internal/local/...", "internal/cli/...", "test/...", "tools/..."},
		Reason: "the image holds what runs in a cluster: what a node pulls, scans and trusts is the controller alone",
	},
}
