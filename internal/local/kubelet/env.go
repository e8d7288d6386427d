package kubelet

import (
	"context"
	"errors"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Environment is that of a container, with everything that it refers to looked up and put in.
func Environment(ctx context.Context, kube client.Reader, pod *corev1.Pod, container *corev1.Container) (map[string]string, error) {
	r := &resolver{kube: kube, pod: pod, container: container, env: map[string]string{}}
	for i := range container.EnvFrom {
		if err := r.from(ctx, &container.EnvFrom[i]); err != nil {
			return nil, fmt.Errorf("envFrom: %w", err)
		}
	}
	for i := range container.Env {
		v := &container.Env[i]
		if v.ValueFrom == nil {
			r.env[v.Name] = expand(v.Value, r.env)
			continue
		}
		value, found, err := r.value(ctx, v.ValueFrom)
		if err != nil {
			return nil, fmt.Errorf("variable %s: %w", v.Name, err)
		}
		if found {
			r.env[v.Name] = value
		}
	}
	return r.env, nil
}

// resolver looks up what an environment refers to.
type resolver struct {
	kube      client.Reader
	pod       *corev1.Pod
	container *corev1.Container
	env       map[string]string
}

// from adds all keys of a ConfigMap or a Secret.
func (r *resolver) from(ctx context.Context, source *corev1.EnvFromSource) error {
	var data map[string]string
	var err error
	switch {
	case source.ConfigMapRef != nil:
		data, err = r.configMap(ctx, source.ConfigMapRef.Name, yes(source.ConfigMapRef.Optional))
	case source.SecretRef != nil:
		data, err = r.secret(ctx, source.SecretRef.Name, yes(source.SecretRef.Optional))
	}
	for key, value := range data {
		r.env[source.Prefix+key] = value
	}
	return err
}

// value looks up one value. Not found is what may be absent and is.
func (r *resolver) value(ctx context.Context, from *corev1.EnvVarSource) (value string, found bool, err error) {
	switch {
	case from.FieldRef != nil:
		value, err = r.field(from.FieldRef.FieldPath)
		return value, true, err
	case from.ResourceFieldRef != nil:
		value, err = r.amount(ctx, from.ResourceFieldRef)
		return value, true, err
	case from.ConfigMapKeyRef != nil:
		ref := from.ConfigMapKeyRef
		data, err := r.configMap(ctx, ref.Name, yes(ref.Optional))
		if value, found = data[ref.Key]; !found && err == nil && !yes(ref.Optional) {
			err = fmt.Errorf("there is no key %q in ConfigMap %s/%s", ref.Key, r.pod.Namespace, ref.Name)
		}
		return value, found, err
	case from.SecretKeyRef != nil:
		ref := from.SecretKeyRef
		data, err := r.secret(ctx, ref.Name, yes(ref.Optional))
		if value, found = data[ref.Key]; !found && err == nil && !yes(ref.Optional) {
			err = fmt.Errorf("there is no key %q in Secret %s/%s", ref.Key, r.pod.Namespace, ref.Name)
		}
		return value, found, err
	}
	return "", false, errors.New("valueFrom is of a kind that a local cluster does not know")
}

func (r *resolver) configMap(ctx context.Context, name string, optional bool) (map[string]string, error) {
	object := &corev1.ConfigMap{}
	err := r.kube.Get(ctx, client.ObjectKey{Namespace: r.pod.Namespace, Name: name}, object)
	if apierrors.IsNotFound(err) && optional {
		return nil, nil
	}
	return object.Data, err
}

func (r *resolver) secret(ctx context.Context, name string, optional bool) (map[string]string, error) {
	object := &corev1.Secret{}
	err := r.kube.Get(ctx, client.ObjectKey{Namespace: r.pod.Namespace, Name: name}, object)
	if apierrors.IsNotFound(err) && optional {
		return nil, nil
	}
	data := make(map[string]string, len(object.Data))
	for key, value := range object.Data {
		data[key] = string(value)
	}
	return data, err
}

// subscript is a field path that names one label or annotation.
var subscript = regexp.MustCompile(`^metadata\.(labels|annotations)\['(.+)'\]$`)

// field is a field of the pod.
func (r *resolver) field(path string) (string, error) {
	if m := subscript.FindStringSubmatch(path); m != nil {
		if m[1] == "labels" {
			return r.pod.Labels[m[2]], nil
		}
		return r.pod.Annotations[m[2]], nil
	}
	switch path {
	case "metadata.name":
		return r.pod.Name, nil
	case "metadata.namespace":
		return r.pod.Namespace, nil
	case "metadata.uid":
		return string(r.pod.UID), nil
	case "spec.nodeName":
		return r.pod.Spec.NodeName, nil
	case "spec.serviceAccountName":
		return r.pod.Spec.ServiceAccountName, nil
	case "status.podIP", "status.podIPs":
		return r.pod.Status.PodIP, nil
	case "status.hostIP", "status.hostIPs":
		return r.pod.Status.HostIP, nil
	}
	return "", fmt.Errorf("a pod has no field %q that a container can be given", path)
}

// amount is how much of a resource a container requests or may use. Without a limit it may use what the node has.
func (r *resolver) amount(ctx context.Context, ref *corev1.ResourceFieldSelector) (string, error) {
	container := r.container
	for i := range r.pod.Spec.Containers {
		if c := &r.pod.Spec.Containers[i]; c.Name == ref.ContainerName {
			container = c
		}
	}
	kind, name, _ := strings.Cut(ref.Resource, ".")
	quantity := container.Resources.Requests[corev1.ResourceName(name)]
	if kind == "limits" {
		var limited bool
		if quantity, limited = container.Resources.Limits[corev1.ResourceName(name)]; !limited {
			node := &corev1.Node{}
			if err := r.kube.Get(ctx, client.ObjectKey{Name: r.pod.Spec.NodeName}, node); err != nil {
				return "", fmt.Errorf("resource %s: reading the node: %w", ref.Resource, err)
			}
			quantity = node.Status.Allocatable[corev1.ResourceName(name)]
		}
	}
	divisor := ref.Divisor
	if divisor.IsZero() {
		divisor = resource.MustParse("1")
	}
	return strconv.FormatInt(int64(math.Ceil(float64(quantity.MilliValue())/float64(divisor.MilliValue()))), 10), nil
}

// expand replaces $(NAME) by the variable's value. One that is not known stays as it is, and $$ is a dollar.
func expand(text string, env map[string]string) string {
	var out strings.Builder
	for {
		before, after, found := strings.Cut(text, "$")
		out.WriteString(before)
		if !found {
			return out.String()
		}
		name, rest, closed := strings.Cut(strings.TrimPrefix(after, "("), ")")
		value, known := env[name]
		switch {
		case strings.HasPrefix(after, "$"):
			out.WriteString("$")
			text = after[1:]
		case strings.HasPrefix(after, "(") && closed && known:
			out.WriteString(value)
			text = rest
		default:
			out.WriteString("$")
			text = after
		}
	}
}

func yes(flag *bool) bool { return flag != nil && *flag }
