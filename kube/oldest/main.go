// Command kube is a whole Kubernetes control plane in one file: etcd, kube-apiserver, kube-controller-manager,
// kube-scheduler, kubectl and kwok, each the unmodified upstream program, chosen by the name that the binary is
// called by (a symlink) or by its first argument.
//
// It lives in a module of its own so that the product's go.mod never sees k8s.io/kubernetes.
package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sort"
	"strings"
	_ "time/tzdata" // CronJob time zones on computers without a zone database

	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"          // --logging-format=json
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // client metrics, as in the upstream programs
	_ "k8s.io/component-base/metrics/prometheus/version"  // version metric, as in the upstream programs
	kubectl "k8s.io/kubectl/pkg/cmd"
	kubectlutil "k8s.io/kubectl/pkg/cmd/util"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
)

// programs maps a program's name to its entry point. Each entry may read os.Args, where os.Args[0] is the
// program's own name, and returns an exit code.
var programs = map[string]func() int{
	"etcd":                    func() int { etcdmain.Main(os.Args); return 0 },
	"kube-apiserver":          func() int { return cli.Run(apiserver.NewAPIServerCommand()) },
	"kube-controller-manager": func() int { return cli.Run(controllermanager.NewControllerManagerCommand()) },
	"kube-scheduler":          func() int { return cli.Run(scheduler.NewSchedulerCommand()) },
	"kubectl":                 runKubectl,
	"kwok":                    runKwok,
}

// lifelineEnv asks a program to end when its standard input does: whoever started it holds the other end, and has
// died if it closes.
const lifelineEnv = "KUBE_LIFELINE"

func main() {
	if os.Getenv(lifelineEnv) != "" {
		go func() {
			_, _ = io.Copy(io.Discard, os.Stdin)
			os.Exit(1)
		}()
	}
	if _, ok := programs[filepath.Base(os.Args[0])]; !ok && len(os.Args) > 1 {
		os.Args = os.Args[1:]
	}
	run, ok := programs[filepath.Base(os.Args[0])]
	if !ok {
		names := make([]string, 0, len(programs))
		for name := range programs {
			names = append(names, name)
		}
		sort.Strings(names)
		fmt.Fprintf(os.Stderr, "kube: no program %q: call me by the name of one of %s, or give that name as the first argument\n",
			filepath.Base(os.Args[0]), strings.Join(names, ", "))
		os.Exit(2)
	}
	os.Exit(run())
}

func runKubectl() int {
	if err := cli.RunNoErrOutput(kubectl.NewDefaultKubectlCommand()); err != nil {
		kubectlutil.CheckErr(err) // prints and exits with the code that kubectl would use
	}
	return 0
}
