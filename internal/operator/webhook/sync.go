package webhook

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"karpenter/api/crds"
	karpv1 "karpenter/api/karpenter/v1"
)

// kind is a definition that this server converts for.
type kind struct{ plural, group, name string }

func (k kind) definition() string { return k.plural + "." + k.group }
func (k kind) path() string       { return "/convert/" + k.plural }

// kinds are those that have versions to convert between, nodepools first. Most commands never ask for them.
var kinds = sync.OnceValue(func() (all []kind) {
	for _, d := range crds.Objects() {
		if len(d.Spec.Versions) > 1 {
			all = append(all, kind{d.Spec.Names.Plural, d.Spec.Group, d.Spec.Names.Kind})
		}
	}
	slices.SortFunc(all, func(a, b kind) int { return strings.Compare(b.definition(), a.definition()) })
	return all
})

// served are those of them that this process is there for: ours, and the provider's node class.
func (o Options) served() []kind {
	return slices.DeleteFunc(slices.Clone(kinds()), func(k kind) bool {
		return k.group != karpv1.Group && o.Class != (schema.GroupKind{}) && o.Class != schema.GroupKind{Group: k.group, Kind: k.name}
	})
}

// Target is how the API server reaches the webhook: the Service in front of it.
type Target struct {
	ServiceNamespace, ServiceName string
	ServicePort                   int32
}

func (t Target) validate() error {
	if t.ServiceNamespace == "" || t.ServiceName == "" || t.ServicePort < 1 || t.ServicePort > 65535 {
		return errors.New("conversion webhook: give the namespace, name and port of its Service")
	}
	return nil
}

// hosts are the names that the certificate must be good for.
func (t Target) hosts() []string {
	name := t.ServiceName + "." + t.ServiceNamespace
	return []string{name + ".svc", name + ".svc.cluster.local", name}
}

// Conversion is what belongs into spec.conversion of a definition, whose plural name is given. A definition that is installed
// with it from the start, without a bundle, refuses v1beta1 until the webhook runs, instead of storing it unconverted.
func (t Target) Conversion(plural string, bundle []byte) *apiextensionsv1.CustomResourceConversion {
	path := kind{plural: plural}.path()
	reach := &apiextensionsv1.WebhookClientConfig{
		CABundle: bundle, Service: &apiextensionsv1.ServiceReference{Namespace: t.ServiceNamespace, Name: t.ServiceName, Port: &t.ServicePort, Path: &path},
	}
	return &apiextensionsv1.CustomResourceConversion{
		Strategy: apiextensionsv1.WebhookConverter,
		Webhook:  &apiextensionsv1.WebhookConversion{ClientConfig: reach, ConversionReviewVersions: []string{"v1"}},
	}
}

// Definitions are those of all our kinds, converted by this webhook where they have versions to convert between.
func (t Target) Definitions() []*apiextensionsv1.CustomResourceDefinition {
	all := crds.Objects()
	for _, definition := range all {
		if len(definition.Spec.Versions) > 1 {
			definition.Spec.Conversion = t.Conversion(definition.Spec.Names.Plural, nil)
		}
	}
	return all
}

// sync brings the Secret, the served certificate and the definitions to where they should be.
func (s *Server) sync(ctx context.Context) error {
	definitions, err := s.definitions(ctx)
	if err != nil {
		return err
	}
	ring, err := s.share(ctx, definitions)
	if err != nil {
		return err
	}
	s.serving.Store(ring.serving())
	var errs []error
	for _, definition := range definitions {
		errs = append(errs, s.point(ctx, definition, ring))
	}
	return errors.Join(errs...)
}

func (s *Server) definitions(ctx context.Context) ([]*apiextensionsv1.CustomResourceDefinition, error) {
	var out []*apiextensionsv1.CustomResourceDefinition
	for _, kind := range s.served() {
		definition := &apiextensionsv1.CustomResourceDefinition{}
		if err := s.Client.Get(ctx, client.ObjectKey{Name: kind.definition()}, definition); err != nil {
			return nil, fmt.Errorf("reading CustomResourceDefinition %s: %w", kind.definition(), err)
		}
		out = append(out, definition)
	}
	return out, nil
}

// shareAttempts is how often two replicas may get in each other's way before the next round tries again.
const shareAttempts = 5

// share returns the keyring that all replicas use, renewed if that is due. Whoever writes first wins; the others take it.
func (s *Server) share(ctx context.Context, definitions []*apiextensionsv1.CustomResourceDefinition) (*keyring, error) {
	trusted := func(ca *x509.Certificate) bool { return trustedByAll(definitions, ca) }
	for range shareAttempts {
		secret := &corev1.Secret{}
		err := s.Client.Get(ctx, s.Secret, secret)
		missing := apierrors.IsNotFound(err)
		if err != nil && !missing {
			return nil, fmt.Errorf("reading Secret %s: %w", s.Secret, err)
		}
		ring, unreadable := parseKeyring(secret.Data)
		if unreadable != nil {
			ring = nil
		}
		next, err := ring.renewed(s.Target.hosts(), s.Clock.Now(), trusted)
		if err != nil {
			return nil, fmt.Errorf("making certificates: %w", err)
		}
		if next == ring {
			return ring, nil
		}
		err = s.write(ctx, secret, next, missing)
		switch {
		case err == nil:
			s.Log.Info("conversion webhook renewed its certificates", "secret", s.Secret.String(), "until", next.leaf.NotAfter, "authorities", len(next.authorities))
			return next, nil
		case !apierrors.IsAlreadyExists(err) && !apierrors.IsConflict(err):
			return nil, fmt.Errorf("writing Secret %s: %w", s.Secret, err)
		}
	}
	return nil, fmt.Errorf("writing Secret %s: others changed it %d times in between", s.Secret, shareAttempts)
}

func (s *Server) write(ctx context.Context, secret *corev1.Secret, ring *keyring, create bool) error {
	data, err := ring.data()
	if err != nil {
		return err
	}
	if create {
		return s.Client.Create(ctx, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: s.Secret.Namespace, Name: s.Secret.Name},
			Data:       data,
		})
	}
	if secret.Data == nil {
		secret.Data = map[string][]byte{}
	}
	for key, value := range data {
		secret.Data[key] = value
	}
	return s.Client.Update(ctx, secret)
}

// trustedByAll reports whether the API server trusts an authority for every definition.
func trustedByAll(definitions []*apiextensionsv1.CustomResourceDefinition, ca *x509.Certificate) bool {
	for _, definition := range definitions {
		conversion := definition.Spec.Conversion
		if conversion == nil || conversion.Webhook == nil || conversion.Webhook.ClientConfig == nil {
			return false
		}
		bundle, err := parseCertificates(conversion.Webhook.ClientConfig.CABundle)
		if err != nil || !slices.ContainsFunc(bundle, ca.Equal) {
			return false
		}
	}
	return true
}

// point makes a definition send its conversions here. Where another replica has written meanwhile, what it wrote is looked at.
func (s *Server) point(ctx context.Context, definition *apiextensionsv1.CustomResourceDefinition, ring *keyring) error {
	want := s.Target.Conversion(definition.Spec.Names.Plural, ring.bundle())
	for range shareAttempts {
		if equality.Semantic.DeepEqual(definition.Spec.Conversion, want) {
			return nil
		}
		before := definition.DeepCopy()
		definition.Spec.Conversion = want
		err := s.Client.Patch(ctx, definition, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
		if err == nil {
			s.Log.Info("conversion webhook written into CRD", "crd", definition.Name)
			return nil
		}
		if !apierrors.IsConflict(err) {
			return fmt.Errorf("writing spec.conversion of CustomResourceDefinition %s: %w", definition.Name, err)
		}
		if err := s.Client.Get(ctx, client.ObjectKeyFromObject(before), definition); err != nil {
			return fmt.Errorf("reading CustomResourceDefinition %s: %w", before.Name, err)
		}
	}
	return fmt.Errorf("writing spec.conversion of CustomResourceDefinition %s: others changed it %d times in between", definition.Name, shareAttempts)
}
