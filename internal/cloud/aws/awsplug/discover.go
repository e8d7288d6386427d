package awsplug

import (
	"context"
	"encoding/base64"
	"fmt"
	"os"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"karpenter/cloud/plug"
	"karpenter/internal/cloud/aws"
)

// finder finds out what cluster this is, from settings first and then from whoever knows.
type finder struct {
	options *Options
	clients aws.Clients
	plug.Process
}

// cluster is what nodes need to know of the cluster that they join (aws §7.3).
func (d *finder) cluster(ctx context.Context) (aws.Cluster, error) {
	found, err := aws.FindCluster(ctx, d.clients, d.options.ClusterName)
	if err != nil {
		// What is set need not be asked; only without the rest no node could join.
		if d.options.ClusterEndpoint == "" || d.options.EKSControlPlane || d.options.EnableZonalShift {
			return aws.Cluster{}, err
		}
		d.Log.Warn("EKS does not describe the cluster; settings are used", "cluster", d.options.ClusterName, "error", err)
		found = aws.Cluster{Name: d.options.ClusterName}
	}
	if d.options.ClusterEndpoint != "" {
		found.Endpoint = d.options.ClusterEndpoint
	}
	if found.CABundle, err = d.authority(found.CABundle); err != nil {
		return aws.Cluster{}, err
	}
	if !d.options.EKSControlPlane || found.Version == "" {
		if found.Version, err = plug.ServerVersion(d.Kube.Discovery()); err != nil {
			return aws.Cluster{}, err
		}
	}
	if err := d.addresses(ctx, &found); err != nil {
		return aws.Cluster{}, err
	}
	system, err := d.Kube.CoreV1().Namespaces().Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
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
	own, err := authority(d.Config)
	if err != nil || own != "" {
		return own, err
	}
	return fromEKS, nil
}

// addresses fills in where Services are, and DNS among them.
func (d *finder) addresses(ctx context.Context, found *aws.Cluster) error {
	dns, err := d.Kube.CoreV1().Services(metav1.NamespaceSystem).Get(ctx, "kube-dns", metav1.GetOptions{})
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
	ranges, err := d.Kube.NetworkingV1().ServiceCIDRs().Get(ctx, "kubernetes", metav1.GetOptions{})
	if err == nil && len(ranges.Spec.CIDRs) > 0 {
		found.ServiceCIDR = ranges.Spec.CIDRs[0]
		return nil
	}
	d.Log.Warn("the range of Services is not known; nodes of AL2023 cannot join without it", "error", err)
	return nil
}

// authority is the certificate authority of the API server that this process talks to, in base64.
func authority(config *rest.Config) (string, error) {
	data := config.CAData
	if len(data) == 0 && config.CAFile != "" {
		var err error
		if data, err = os.ReadFile(config.CAFile); err != nil {
			return "", fmt.Errorf("reading the API server's certificate authority: %w", err)
		}
	}
	return base64.StdEncoding.EncodeToString(data), nil
}
