package plane

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// startAttempts bounds how often a start is tried anew because another program took a port between our choosing
// and the child's binding it.
const startAttempts = 4

// readyTimeout is far above what the slowest computer seen needs (an idle laptop: 3 s), because a test computer may
// be compiling at the same time.
const readyTimeout = 5 * time.Minute

// Options say what to run and where.
type Options struct {
	// Binary is the multi-call binary built from kube/.
	Binary string
	// Dir holds everything of this plane: data, certificates, logs, kubeconfigs. It is made if missing. A plane
	// started on the folder of an earlier one goes on with its data.
	Dir string
	// Controllers starts kube-controller-manager; without it nothing garbage-collects, makes service accounts or
	// runs Deployments.
	Controllers bool
	// ControllersQPS and ControllersBurst are how many requests a second each controller of kube-controller-manager may send, and how
	// many at once; zero is Kubernetes' own default, 20 and 30.
	ControllersQPS, ControllersBurst int
	// Scheduler starts kube-scheduler.
	Scheduler bool
	// SchedulerQPS and SchedulerBurst are the same for kube-scheduler, whose defaults are 50 and 100.
	SchedulerQPS, SchedulerBurst int
	// DefaultSpread are constraints that kube-scheduler gives pods without any, instead of its own.
	DefaultSpread []corev1.TopologySpreadConstraint
	// AuditPolicy is a policy file by which the API server notes requests in logs/audit.log; without one it notes none.
	AuditPolicy string
	// NoWatchCache makes the API server answer lists from etcd itself. Its cache of a kind waits up to a tenth of a second to be as
	// new as the last write to any other kind, which a test that lists after every write notices.
	NoWatchCache bool
	// Dial is how the API server reaches nodes, pods and Services; without one it reaches what this computer does.
	Dial Dial
	// Progress, if set, is told what is being waited for.
	Progress func(message string)
}

// Plane is a running control plane.
type Plane struct {
	// Config is a client configuration for a cluster administrator.
	Config *rest.Config
	// Kubeconfig is a file with the same rights as Config.
	Kubeconfig string
	// CA is the file of the authority that signed every certificate here.
	CA string

	opts      Options
	authority *authority
	ports     ports
	gateway   net.Listener // nil without Dial
	processes []*process
}

type ports struct{ etcd, etcdPeer, apiserver, controllers, scheduler int }

// Endpoint is the URL of the API server.
func (p *Plane) Endpoint() string { return fmt.Sprintf("https://127.0.0.1:%d", p.ports.apiserver) }

// ServingPair names the files of the certificate and key that the servers of this plane show, for more servers on
// this computer.
func (p *Plane) ServingPair() (certFile, keyFile string) {
	files := p.authority.pair("server")
	return files.cert, files.key
}

// Start runs a control plane and returns when all of it is ready.
func Start(ctx context.Context, opts Options) (*Plane, error) {
	if _, err := os.Stat(opts.Binary); err != nil {
		return nil, fmt.Errorf("the control plane binary is missing (make kube builds it): %w", err)
	}
	if opts.Progress == nil {
		opts.Progress = func(string) {}
	}
	for _, path := range []*string{&opts.Dir, &opts.Binary} { // the children have another working directory
		absolute, err := filepath.Abs(*path)
		if err != nil {
			return nil, fmt.Errorf("resolving %s: %w", *path, err)
		}
		*path = absolute
	}
	if err := os.MkdirAll(filepath.Join(opts.Dir, "logs"), 0o700); err != nil {
		return nil, fmt.Errorf("making the folder of the control plane: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	for attempt := 1; ; attempt++ {
		p, err := start(ctx, opts)
		if err == nil || !errors.Is(err, errPortTaken) || attempt == startAttempts {
			return p, err
		}
	}
}

func start(ctx context.Context, opts Options) (*Plane, error) {
	p := &Plane{opts: opts}
	if err := p.bringUp(ctx); err != nil {
		p.Stop()
		return nil, err
	}
	return p, nil
}

func (p *Plane) bringUp(ctx context.Context) error {
	var err error
	if p.authority, err = openAuthority(filepath.Join(p.opts.Dir, "pki"), time.Now()); err != nil {
		return err
	}
	p.CA = p.authority.pair("ca").cert
	if err := p.ports.choose(p.opts.Dir); err != nil {
		return err
	}
	p.opts.Progress("starting etcd and kube-apiserver")
	if err := p.startServers(ctx); err != nil {
		return err
	}
	if p.opts.Controllers || p.opts.Scheduler {
		p.opts.Progress("starting the controllers and the scheduler")
	}
	return p.startClients(ctx)
}

// Stop ends every process, in order. It may be called more than once.
func (p *Plane) Stop() {
	stopAll(p.processes)
	p.processes = nil
	if p.gateway != nil {
		_ = p.gateway.Close() // may be closed already
	}
}

// Run starts one more program of the multi-call binary (kwok, say), which ends with the plane.
func (p *Plane) Run(name string, args ...string) error {
	child, err := spawn(p.opts.Binary, filepath.Join(p.opts.Dir, "logs"), name, args)
	if err != nil {
		return err
	}
	p.processes = append(p.processes, child)
	return nil
}

// Wait returns when one of the plane's processes has ended without being asked to, which is an error, or when ctx ends.
func (p *Plane) Wait(ctx context.Context) error {
	ended := make(chan *process, len(p.processes))
	for _, child := range p.processes {
		go func() {
			select {
			case <-child.done:
				ended <- child
			case <-ctx.Done():
			}
		}()
	}
	select {
	case child := <-ended:
		return child.ended()
	case <-ctx.Done():
		return nil
	}
}

// Pids are the process ids by program name, for those who measure or kill.
func (p *Plane) Pids() map[string]int {
	pids := make(map[string]int, len(p.processes))
	for _, child := range p.processes {
		pids[child.name] = child.cmd.Process.Pid
	}
	return pids
}

// UserConfig is a client configuration for a user of the given name and groups, with only the rights that RBAC
// gives them.
func (p *Plane) UserConfig(user string, groups ...string) (*rest.Config, error) {
	file, err := p.kubeconfig(identity{file: user, user: user, groups: groups})
	if err != nil {
		return nil, err
	}
	return clientcmd.BuildConfigFromFlags("", file)
}

// kubeconfig writes a client certificate and a self-contained kubeconfig for it.
func (p *Plane) kubeconfig(id identity) (string, error) {
	files, err := p.authority.issue(id)
	if err != nil {
		return "", err
	}
	var data [3][]byte
	for i, name := range []string{p.CA, files.cert, files.key} {
		if data[i], err = os.ReadFile(name); err != nil {
			return "", fmt.Errorf("reading a certificate: %w", err)
		}
	}
	config := clientcmdapi.Config{
		Clusters: map[string]*clientcmdapi.Cluster{"karpenter-local": {
			Server:                   p.Endpoint(),
			CertificateAuthorityData: data[0],
		}},
		AuthInfos: map[string]*clientcmdapi.AuthInfo{id.user: {
			ClientCertificateData: data[1],
			ClientKeyData:         data[2],
		}},
		Contexts:       map[string]*clientcmdapi.Context{"karpenter-local": {Cluster: "karpenter-local", AuthInfo: id.user}},
		CurrentContext: "karpenter-local",
	}
	file := filepath.Join(p.opts.Dir, id.file+".kubeconfig")
	if err := clientcmd.WriteToFile(config, file); err != nil {
		return "", fmt.Errorf("writing the kubeconfig of %s: %w", id.user, err)
	}
	return file, nil
}
