package archtest

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"sort"
	"strconv"
)

// Leak says which names of a cloud may stand where.
type Leak struct {
	// Name matches identifiers and texts of the cloud. Comments may say what they like.
	Name *regexp.Regexp
	// Homes are packages that are the cloud's own, and their users; as in Rule.
	Homes []Home
	// Allowed are exceptions in other files: nothing but what Text matches may stand there.
	Allowed []Allowed
}

// Home is a part of the tree where a cloud may be named.
type Home struct{ Package, Reason string }

// Allowed is an exception.
type Allowed struct {
	File   string
	Text   *regexp.Regexp
	Reason string
}

// CheckNames returns one sentence per name of a cloud outside its home, sorted. Tests are not looked at: they need some cloud.
func CheckNames(packages []Package, leaks []Leak) ([]string, error) {
	var found []string
	for _, p := range packages {
		path, ok := inModule(p.ImportPath)
		if !ok {
			continue
		}
		for _, leak := range leaks {
			if leak.home(path) {
				continue
			}
			for _, file := range p.GoFiles {
				names, err := leak.in(filepath.Join(p.Dir, file), path+"/"+file)
				if err != nil {
					return nil, err
				}
				found = append(found, names...)
			}
		}
	}
	sort.Strings(found)
	return found, nil
}

func (l *Leak) home(path string) bool {
	for _, h := range l.Homes {
		if covers(h.Package, path) {
			return true
		}
	}
	return false
}

// in lists the names in one file, called name from the root of the module.
func (l *Leak) in(file, name string) ([]string, error) {
	fileset := token.NewFileSet()
	parsed, err := parser.ParseFile(fileset, file, nil, parser.SkipObjectResolution)
	if err != nil {
		return nil, fmt.Errorf("parsing %s: %w", file, err)
	}
	var found []string
	note := func(at token.Pos, text string) {
		for _, a := range l.Allowed {
			if a.File == name {
				text = a.Text.ReplaceAllString(text, "")
			}
		}
		if match := l.Name.FindString(text); match != "" {
			found = append(found, fmt.Sprintf("%s:%d: %q names a cloud: that belongs to its provider, behind package cloud or plug", name, fileset.Position(at).Line, match))
		}
	}
	ast.Inspect(parsed, func(node ast.Node) bool {
		switch n := node.(type) {
		case *ast.Ident:
			note(n.Pos(), n.Name)
		case *ast.BasicLit:
			if n.Kind != token.STRING {
				break
			}
			if text, err := strconv.Unquote(n.Value); err == nil {
				note(n.Pos(), text)
			}
		}
		return true
	})
	return found, nil
}

// Leaks are the clouds that the neutral part of the tree must not name.
var Leaks = []Leak{
	{
		Name: regexp.MustCompile(`AWS|\baws|EC2|ec2|EKS|\beks\b|amazonaws|k8s\.aws`),
		Homes: []Home{
			{"internal/cloud/aws/...", "the AWS provider"},
			{"internal/cloud/simaws/...", "the AWS simulator"},
			{"api/aws/...", "its kinds"},
			{"api/convert", "conversion knows every kind that has versions"},
			{"internal/clouds", "the list of providers that programs hold"},
			{"internal/cli/builtin", "what the AWS simulator sells"},
			{"internal/local/...", "a local cluster runs on the AWS simulator"},
			{"internal/sim/...", "the simulation runs on the AWS simulator"},
			{"test/...", "tests run on the AWS simulator"},
			{"tools/...", "tools make the AWS simulator's data, and the charts"},
		},
		Allowed: []Allowed{
			{"cmd/karpenter/main.go", regexp.MustCompile(`NewAWSSim|\.ec2\.internal`), "the subcommand of the AWS simulator; nodes in examples have names as on AWS"},
			{"internal/cli/awssim.go", all, "the subcommand of the AWS simulator"},
			{"internal/cli/usage.go", regexp.MustCompile(`^aws-sim$`), "the subcommand of the AWS simulator"},
			{"internal/cli/sim.go", regexp.MustCompile(`the AWS simulator\. Calls to AWS`), "the simulation runs on the AWS simulator"},
			{"internal/cli/import.go", all, "import reads node groups of EKS and nothing else"},
			{"internal/cli/import_autoscaler.go", all, "the same"},
			{"internal/cli/import_nodes.go", all, "the same"},
			{"internal/cli/import_plan.go", all, "the same"},
			{"internal/cli/import_print.go", all, "the same"},
			{"internal/cli/import_propose.go", all, "the same"},
			{"internal/cli/convert.go", regexp.MustCompile(`EC2NodeClass|AWSNodeTemplate`), "conversion knows every kind that has versions"},
			{"internal/cli/explain.go", regexp.MustCompile(`\.ec2\.internal`), "nodes in examples have names as on AWS"},
			{"internal/cli/decisions.go", regexp.MustCompile(`\.ec2\.internal`), "the same"},
			{"internal/cli/plan.go", regexp.MustCompile(`\.ec2\.internal`), "the same"},
			{"internal/meter/table_work.go", regexp.MustCompile(`^aws-7\.5$`), "the number of a feature"},
			{"internal/state/dump/write.go", regexp.MustCompile(`^AWSElasticBlockStore$`), "a field of Kubernetes' own"},
			{"internal/state/toworld/volume.go", regexp.MustCompile(`^AWSElasticBlockStore$|^kubernetes\.io/aws-ebs$|^ebs\.csi\.aws\.com$`), "names of Kubernetes' own: volumes of plugins that CSI drivers have taken over"},
		},
	},
	{
		Name: regexp.MustCompile(`ClusterAPI|Cluster API|cluster-api|CLUSTER_API|cluster\.x-k8s\.io|\bcapi\b|\bcapiplug`),
		Homes: []Home{
			{"internal/cloud/capi/...", "the Cluster API provider"},
			{"api/capi/...", "its kinds"},
			{"internal/clouds", "the list of providers that programs hold"},
			{"internal/cli/builtin", "what commands know of providers by themselves"},
			{"internal/local/...", "a local cluster can run with it"},
			{"test/...", "tests run with it"},
			{"tools/...", "tools make the charts"},
		},
		Allowed: []Allowed{
			{"api/karpenter/v1/labels.go", regexp.MustCompile(`^node\.cluster\.x-k8s\.io/uninitialized$`), "a taint of nodes that are still starting, as those of cloud providers in general"},
		},
	},
}

var all = regexp.MustCompile(`(?s).*`)
