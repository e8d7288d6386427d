package kubelet

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// tokenLife is how long a token for the API server is good for, as in every pod; roleTokenLife one for AWS, as on EKS.
	tokenLife     = 3607 * time.Second
	roleTokenLife = 24 * time.Hour
	// tokenRetry is how soon a token is asked for again that could not be had.
	tokenRetry = 10 * time.Second
	// roleAnnotation on a service account names the role that its pods have on AWS.
	roleAnnotation = "eks.amazonaws.com/role-arn"
	// roleAudience is whom tokens for AWS are meant for.
	roleAudience = "sts.amazonaws.com"
)

// identity is how a process shows who it is: a kubeconfig with its account's token, and a token for its role on AWS if it has one.
func (w *worker) identity(ctx context.Context) (env map[string]string, tokens []*token, err error) {
	config := w.k.opts.Config
	own := &token{w: w, file: filepath.Join(w.dir, "token"), life: tokenLife}
	kubeconfig := filepath.Join(w.dir, "kubeconfig")
	err = clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{"local": {Server: config.Host, CertificateAuthority: config.CAFile, CertificateAuthorityData: config.CAData}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{"pod": {TokenFile: own.file}},
		Contexts:       map[string]*clientcmdapi.Context{"local": {Cluster: "local", AuthInfo: "pod", Namespace: w.pod.Namespace}},
		CurrentContext: "local",
	}, kubeconfig)
	if err != nil {
		return nil, nil, fmt.Errorf("writing the pod's kubeconfig: %w", err)
	}
	env, tokens = map[string]string{"KUBECONFIG": kubeconfig}, []*token{own}
	account := &corev1.ServiceAccount{}
	if err := w.k.opts.Kube.Get(ctx, client.ObjectKey{Namespace: w.pod.Namespace, Name: w.pod.Spec.ServiceAccountName}, account); err != nil {
		return nil, nil, fmt.Errorf("reading the pod's ServiceAccount: %w", err)
	}
	if role := account.Annotations[roleAnnotation]; role != "" {
		shown := &token{w: w, file: filepath.Join(w.dir, "role-token"), life: roleTokenLife, audience: []string{roleAudience}}
		env["AWS_ROLE_ARN"], env["AWS_WEB_IDENTITY_TOKEN_FILE"] = role, shown.file
		tokens = append(tokens, shown)
	}
	for _, t := range tokens {
		if err := t.fetch(ctx); err != nil {
			return nil, nil, err
		}
	}
	return env, tokens, nil
}

// token is a file with a token of the pod's account that is good for as long as the pod exists.
type token struct {
	w        *worker
	file     string
	life     time.Duration
	audience []string
	// renew is when to ask for the next.
	renew time.Time
}

// fetch writes a new token, at once, so that nobody reads half of it.
func (t *token) fetch(ctx context.Context) error {
	pod := t.w.pod
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		Audiences: t.audience, ExpirationSeconds: new(int64(t.life / time.Second)),
		BoundObjectRef: &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID},
	}}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Spec.ServiceAccountName}}
	if err := t.w.k.opts.Kube.SubResource("token").Create(ctx, account, request); err != nil {
		return fmt.Errorf("asking for a token of ServiceAccount %s/%s: %w", account.Namespace, account.Name, err)
	}
	fresh := t.file + ".new"
	if err := os.WriteFile(fresh, []byte(request.Status.Token), 0o600); err != nil {
		return fmt.Errorf("writing the pod's token: %w", err)
	}
	if err := os.Rename(fresh, t.file); err != nil {
		return fmt.Errorf("writing the pod's token: %w", err)
	}
	t.renew = time.Now().Add(time.Until(request.Status.ExpirationTimestamp.Time) * 4 / 5)
	return nil
}

// keep renews the token until ctx ends.
func (t *token) keep(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Until(t.renew)):
		}
		if err := t.fetch(ctx); err != nil {
			t.renew = time.Now().Add(tokenRetry)
		}
	}
}
