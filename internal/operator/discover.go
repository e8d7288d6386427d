package operator

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	awsv1 "karpenter/api/aws/v1"
	karpv1 "karpenter/api/karpenter/v1"
	"karpenter/internal/cloud/aws"
)

// Waits between attempts at what must succeed before anything else can be done.
const (
	firstAttempt = time.Second
	lastAttempt  = 30 * time.Second
)

// persist tries until it succeeds or the context ends. Why it has not yet is logged and shown on /readyz: a process that says
// what it waits for is of more use than one that is started again and again.
func (p *process) persist(ctx context.Context, part string, try func(context.Context) error) error {
	for wait := firstAttempt; ; wait = min(2*wait, lastAttempt) {
		err := try(ctx)
		if err == nil {
			p.ready.done(part)
			return nil
		}
		if ctx.Err() != nil {
			return fmt.Errorf("%s: %w", part, context.Cause(ctx))
		}
		p.ready.waiting(part, err)
		p.log.Error("cannot start yet, trying again", "waiting-for", part, "error", err, "again-in", wait)
		if !sleep(ctx, p.clock, wait) {
			return fmt.Errorf("%s: %w", part, context.Cause(ctx))
		}
	}
}

// knownKinds has the manager ask for what the API server serves of each group before anything depends on the answer: one that is lost is
// no reason to end.
func knownKinds(mapper meta.RESTMapper) error {
	for _, kind := range []schema.GroupVersionKind{
		corev1.SchemeGroupVersion.WithKind("Pod"), appsv1.SchemeGroupVersion.WithKind("ReplicaSet"), policyv1.SchemeGroupVersion.WithKind("PodDisruptionBudget"),
		storagev1.SchemeGroupVersion.WithKind("StorageClass"), karpv1.SchemeGroupVersion.WithKind("NodePool"), awsv1.SchemeGroupVersion.WithKind(awsv1.EC2NodeClassKind),
	} {
		if _, err := mapper.RESTMapping(kind.GroupKind(), kind.Version); err != nil {
			return fmt.Errorf("asking the API server for kind %s: %w", kind.Kind, err)
		}
	}
	return nil
}

// sleep returns false if the context ends first.
func sleep(ctx context.Context, c clock.Clock, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-c.After(d):
		return true
	}
}

// finder finds out what cluster this is, from settings first and then from whoever knows.
type finder struct {
	options *Options
	config  *rest.Config
	kube    kubernetes.Interface
	clients aws.Clients
	log     *slog.Logger
}

// cluster is what nodes need to know of the cluster that they join (aws §7.3).
func (d *finder) cluster(ctx context.Context) (aws.Cluster, error) {
	found, err := aws.FindCluster(ctx, d.clients, d.options.ClusterName)
	if err != nil {
		// What is set need not be asked; only without the rest no node could join.
		if d.options.ClusterEndpoint == "" || d.options.EKSControlPlane || d.options.EnableZonalShift {
			return aws.Cluster{}, err
		}
		d.log.Warn("EKS does not describe the cluster; settings are used", "cluster", d.options.ClusterName, "error", err)
		found = aws.Cluster{Name: d.options.ClusterName}
	}
	if d.options.ClusterEndpoint != "" {
		found.Endpoint = d.options.ClusterEndpoint
	}
	if found.CABundle, err = d.authority(found.CABundle); err != nil {
		return aws.Cluster{}, err
	}
	if !d.options.EKSControlPlane || found.Version == "" {
		if found.Version, err = serverVersion(d.kube.Discovery()); err != nil {
			return aws.Cluster{}, err
		}
	}
	if err := d.addresses(ctx, &found); err != nil {
		return aws.Cluster{}, err
	}
	system, err := d.kube.CoreV1().Namespaces().Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
	if err != nil {
		return aws.Cluster{}, fmt.Errorf("reading namespace %s, whose UID identifies the cluster: %w", metav1.NamespaceSystem, err)
	}
	found.UID = string(system.UID)
	return found, nil
}

// authority is the setting, or what this process itself trusts, or what EKS says.
func (d *finder) authority(fromEKS string) (string, error) {
	if d.options.CABundle != "" {
		return d.options.CABundle, nil
	}
	own, err := authority(d.config)
	if err != nil || own != "" {
		return own, err
	}
	return fromEKS, nil
}

// addresses fills in where Services are, and DNS among them.
func (d *finder) addresses(ctx context.Context, found *aws.Cluster) error {
	dns, err := d.kube.CoreV1().Services(metav1.NamespaceSystem).Get(ctx, "kube-dns", metav1.GetOptions{})
	switch {
	case err == nil:
		for _, ip := range dns.Spec.ClusterIPs {
			if ip != "" && ip != corev1.ClusterIPNone {
				found.DNS = append(found.DNS, ip)
			}
		}
	case !apierrors.IsNotFound(err) && !apierrors.IsForbidden(err):
		return fmt.Errorf("reading Service %s/kube-dns: %w", metav1.NamespaceSystem, err)
	}
	if found.ServiceCIDR != "" {
		return nil
	}
	// EKS did not say. The API server has it since Kubernetes 1.33.
	ranges, err := d.kube.NetworkingV1().ServiceCIDRs().Get(ctx, "kubernetes", metav1.GetOptions{})
	if err == nil && len(ranges.Spec.CIDRs) > 0 {
		found.ServiceCIDR = ranges.Spec.CIDRs[0]
		return nil
	}
	d.log.Warn("the range of Services is not known; nodes of AL2023 cannot join without it", "error", err)
	return nil
}

// errUpgraded ends a process whose knowledge of the control plane is out of date; the next one starts with the new.
var errUpgraded = errors.New("the control plane has another version than at the start")

// versionEvery is how often the control plane's version is looked at.
const versionEvery = 5 * time.Minute

// watchVersion returns errUpgraded when the API server's version has changed: images are chosen by it.
func (p *process) watchVersion(ctx context.Context, client discovery.ServerVersionInterface) error {
	first := ""
	for {
		switch now, err := serverVersion(client); {
		case err != nil: // others say that the API server is away
		case first == "":
			first = now
		case now != first:
			return fmt.Errorf("%w: %s, it was %s", errUpgraded, now, first)
		}
		if !sleep(ctx, p.clock, versionEvery) {
			return nil
		}
	}
}
