package plane

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/clientcmd"
)

// pollInterval is how often a starting server is asked whether it is ready: nothing can be watched before it is.
const pollInterval = 50 * time.Millisecond

// ServiceRange is where Services have their addresses, and DNSAddress the one that pods look names up at.
const (
	ServiceRange = "10.96.0.0/16"
	DNSAddress   = "10.96.0.10"
)

// KubeletAddress is the type of node address that the API server looks for kubelets at before any other.
const KubeletAddress = corev1.NodeExternalDNS

func (p *Plane) startServers(ctx context.Context) error {
	serving, err := p.authority.issue(identity{
		file: "server", user: "kube-apiserver", groups: []string{"system:masters"},
		hosts: []string{"127.0.0.1", "::1", "localhost", "10.96.0.1", "kubernetes", "kubernetes.default", "kubernetes.default.svc"},
	})
	if err != nil {
		return err
	}
	etcdURL := fmt.Sprintf("https://127.0.0.1:%d", p.ports.etcd)
	peerURL := fmt.Sprintf("https://127.0.0.1:%d", p.ports.etcdPeer)
	etcd, err := p.spawn("etcd",
		"--name=local", "--data-dir="+filepath.Join(p.opts.Dir, "etcd"),
		"--listen-client-urls="+etcdURL, "--advertise-client-urls="+etcdURL,
		"--listen-peer-urls="+peerURL, "--initial-advertise-peer-urls="+peerURL, "--initial-cluster=local="+peerURL,
		"--cert-file="+serving.cert, "--key-file="+serving.key, "--trusted-ca-file="+p.CA, "--client-cert-auth=true",
		"--peer-cert-file="+serving.cert, "--peer-key-file="+serving.key, "--peer-trusted-ca-file="+p.CA, "--peer-client-cert-auth=true",
		"--unsafe-no-fsync=true", // a laptop's cluster may lose its last second in a power cut; it may not be slow
		"--log-level=warn", "--quota-backend-bytes=4294967296",
	)
	if err != nil {
		return err
	}
	serviceAccountKey, err := p.serviceAccountKey()
	if err != nil {
		return err
	}
	args := []string{
		"--etcd-servers=" + etcdURL, "--etcd-cafile=" + p.CA, "--etcd-certfile=" + serving.cert, "--etcd-keyfile=" + serving.key,
		"--bind-address=127.0.0.1", "--advertise-address=127.0.0.1", fmt.Sprintf("--secure-port=%d", p.ports.apiserver),
		"--tls-cert-file=" + serving.cert, "--tls-private-key-file=" + serving.key, "--client-ca-file=" + p.CA,
		"--kubelet-client-certificate=" + serving.cert, "--kubelet-client-key=" + serving.key,
		"--service-account-issuer=https://kubernetes.default.svc", "--service-account-key-file=" + serviceAccountKey,
		"--service-account-signing-key-file=" + serviceAccountKey,
		"--authorization-mode=Node,RBAC", "--allow-privileged=true", "--service-cluster-ip-range=" + ServiceRange,
		// A node that is only simulated has an address that leads nowhere; its kubelet is kwok, which is on this computer.
		"--kubelet-preferred-address-types=" + string(KubeletAddress) + ",InternalIP,Hostname",
		"--endpoint-reconciler-type=none", // its addresses may not be loopback, and nothing in here needs the endpoint
		"--v=1",
	}
	// Nothing here goes over a wire.
	without, err := p.without(ctx, "kube-apiserver", "APIResponseCompression", "WatchListCompression")
	if err != nil {
		return err
	}
	args = append(args, without...)
	if !p.opts.Controllers {
		// Nothing makes service accounts then, and a pod would wait for one for ever.
		args = append(args, "--disable-admission-plugins=ServiceAccount")
	}
	if p.opts.NoWatchCache {
		args = append(args, "--watch-cache=false")
	}
	if p.opts.AuditPolicy != "" {
		args = append(args, "--audit-policy-file="+p.opts.AuditPolicy, "--audit-log-path="+filepath.Join(p.opts.Dir, "logs", "audit.log"), "--audit-log-mode=blocking")
	}
	if p.opts.Dial != nil {
		file, err := p.egress(serving)
		if err != nil {
			return err
		}
		args = append(args, "--egress-selector-config-file="+file)
	}
	apiserver, err := p.spawn("kube-apiserver", args...)
	if err != nil {
		return err
	}
	if p.Kubeconfig, err = p.kubeconfig(identity{file: "admin", user: "local-admin", groups: []string{"system:masters"}}); err != nil {
		return err
	}
	if p.Config, err = clientcmd.BuildConfigFromFlags("", p.Kubeconfig); err != nil {
		return fmt.Errorf("reading back the kubeconfig: %w", err)
	}
	p.Config.QPS = -1 // a test or a laptop is its own only client
	return p.await(ctx, fmt.Sprintf("https://127.0.0.1:%d/readyz", p.ports.apiserver), apiserver, etcd)
}

// egress opens the gateway, and writes the file that sends what the API server wants of nodes, pods and Services through it.
func (p *Plane) egress(client pair) (string, error) {
	if err := p.openGateway(client); err != nil {
		return "", err
	}
	file := filepath.Join(p.opts.Dir, "egress.yaml")
	text := fmt.Sprintf(`apiVersion: apiserver.k8s.io/v1beta1
kind: EgressSelectorConfiguration
egressSelections:
  - name: cluster
    connection:
      proxyProtocol: HTTPConnect
      transport:
        tcp:
          url: https://%s
          tlsConfig: {caBundle: %q, clientCert: %q, clientKey: %q}
`, p.gateway.Addr(), p.CA, client.cert, client.key)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return "", fmt.Errorf("writing how the API server reaches nodes: %w", err)
	}
	return file, nil
}

func (p *Plane) startClients(ctx context.Context) error {
	type component struct {
		name       string
		port       int
		qps, burst int
		args       []string
	}
	var wanted []component
	if p.opts.Controllers {
		serviceAccountKey, err := p.serviceAccountKey()
		if err != nil {
			return err
		}
		// A controller that is ahead of its watch would try again ever more slowly; on a busy laptop that costs pods half a minute.
		without, err := p.without(ctx, "kube-controller-manager", "StaleControllerConsistencyReplicaSet", "StaleControllerConsistencyDaemonSet")
		if err != nil {
			return err
		}
		signing := p.authority.pair("ca")
		wanted = append(wanted, component{name: "kube-controller-manager", port: p.ports.controllers, qps: p.opts.ControllersQPS, burst: p.opts.ControllersBurst, args: append(without,
			"--service-account-private-key-file="+serviceAccountKey, "--root-ca-file="+p.CA,
			"--cluster-signing-cert-file="+signing.cert, "--cluster-signing-key-file="+signing.key,
			"--use-service-account-credentials=true", "--service-cluster-ip-range="+ServiceRange,
			"--controllers=*,-ttl", // tells kubelets how long to cache secrets, by writing every node twice; there are none here
		)})
	}
	if p.opts.Scheduler {
		wanted = append(wanted, component{name: "kube-scheduler", port: p.ports.scheduler, qps: p.opts.SchedulerQPS, burst: p.opts.SchedulerBurst})
	}
	for _, c := range wanted {
		kubeconfig, err := p.kubeconfig(identity{file: c.name, user: "system:" + c.name})
		if err != nil {
			return err
		}
		serving := p.authority.pair("server")
		args := append([]string{
			"--kubeconfig=" + kubeconfig, "--authentication-kubeconfig=" + kubeconfig, "--authorization-kubeconfig=" + kubeconfig,
			"--bind-address=127.0.0.1", fmt.Sprintf("--secure-port=%d", c.port), "--leader-elect=false",
			"--tls-cert-file=" + serving.cert, "--tls-private-key-file=" + serving.key,
		}, c.args...)
		if c.name == "kube-scheduler" && len(p.opts.DefaultSpread) > 0 {
			file, err := p.schedulerConfig(kubeconfig)
			if err != nil {
				return err
			}
			args = append(args, "--config="+file)
		}
		if c.qps > 0 {
			args = append(args, fmt.Sprintf("--kube-api-qps=%d", c.qps), fmt.Sprintf("--kube-api-burst=%d", max(c.burst, c.qps)))
		}
		if _, err := p.spawn(c.name, args...); err != nil {
			return err
		}
	}
	for _, c := range wanted {
		if err := p.await(ctx, fmt.Sprintf("https://127.0.0.1:%d/healthz", c.port), p.processes...); err != nil {
			return err
		}
	}
	return nil
}

// schedulerConfig writes kube-scheduler's configuration, which stands in for the flags of the same meaning, and returns its file.
func (p *Plane) schedulerConfig(kubeconfig string) (string, error) {
	type object map[string]any
	text, err := json.Marshal(object{
		"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration",
		"clientConnection": object{"kubeconfig": kubeconfig, "qps": p.opts.SchedulerQPS, "burst": max(p.opts.SchedulerBurst, p.opts.SchedulerQPS)}, // 0 is the default
		"leaderElection":   object{"leaderElect": false},
		"profiles": []object{{"schedulerName": corev1.DefaultSchedulerName, "pluginConfig": []object{{
			"name": "PodTopologySpread", "args": object{"defaultingType": "List", "defaultConstraints": p.opts.DefaultSpread},
		}}}},
	})
	if err != nil {
		return "", fmt.Errorf("writing kube-scheduler's configuration: %w", err)
	}
	file := filepath.Join(p.opts.Dir, "scheduler.json")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		return "", fmt.Errorf("writing kube-scheduler's configuration: %w", err)
	}
	return file, nil
}

// without returns the flag that turns features of a program off. Those that it does not know are left out: it would refuse to start,
// and the binary may be of an older Kubernetes than the one that these were read in.
func (p *Plane) without(ctx context.Context, program string, features ...string) ([]string, error) {
	help, err := exec.CommandContext(ctx, p.opts.Binary, program, "--help").Output()
	if err != nil {
		return nil, fmt.Errorf("asking %s %s for its features: %w", p.opts.Binary, program, err)
	}
	var off []string
	for _, feature := range features {
		if bytes.Contains(help, []byte(feature+"=true|false")) {
			off = append(off, feature+"=false")
		}
	}
	if len(off) == 0 {
		return nil, nil
	}
	return []string{"--feature-gates=" + strings.Join(off, ",")}, nil
}

func (p *Plane) spawn(name string, args ...string) (*process, error) {
	child, err := spawn(p.opts.Binary, filepath.Join(p.opts.Dir, "logs"), name, args)
	if err == nil {
		p.processes = append(p.processes, child)
	}
	return child, err
}

// serviceAccountKey is the file of the key that signs service account tokens; it is made once.
func (p *Plane) serviceAccountKey() (string, error) {
	file := filepath.Join(p.opts.Dir, "pki", "service-account.key")
	if _, err := os.Stat(file); !errors.Is(err, fs.ErrNotExist) {
		return file, err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return "", fmt.Errorf("making the service account key: %w", err)
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return "", fmt.Errorf("encoding the service account key: %w", err)
	}
	return file, os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), 0o600)
}

// await asks url until it answers 200, or one of the processes that it depends on ends, or ctx does.
func (p *Plane) await(ctx context.Context, url string, needs ...*process) error {
	admin := p.authority.pair("admin")
	cert, err := tls.LoadX509KeyPair(admin.cert, admin.key)
	if err != nil {
		return fmt.Errorf("loading the administrator's certificate: %w", err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(p.authority.cert)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{cert}}}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport, Timeout: 5 * time.Second}

	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for {
		for _, need := range needs {
			select {
			case <-need.done:
				if need.portTaken() {
					return fmt.Errorf("%w: %w", errPortTaken, need.ended())
				}
				return need.ended()
			default:
			}
		}
		last := get(ctx, client, url)
		if last == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s: %w (last answer: %v); logs are in %s", url, ctx.Err(), last, filepath.Join(p.opts.Dir, "logs"))
		case <-ticker.C:
		}
	}
}

func get(ctx context.Context, client *http.Client, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	body, _ := io.ReadAll(io.LimitReader(response.Body, 4096))
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", response.Status, body)
	}
	return nil
}
