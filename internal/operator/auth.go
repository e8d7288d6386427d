package operator

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"karpenter/internal/web"
)

const (
	// rememberFor is how long it counts that the API server has let somebody in, and refuseFor that it has not: who has just been
	// given the right does not want to wait for it. maxRemembered is about how many at once: more only ask more often.
	rememberFor   = time.Minute
	refuseFor     = 5 * time.Second
	maxRemembered = 1000
	// guardedPrefix is in front of paths when the API server is asked whether somebody may get them. Without it every user could,
	// because the API server's own paths under /api/ are open to all of them.
	guardedPrefix = "/karpenter"
	// reviewTimeout bounds the questions about one request.
	reviewTimeout = 10 * time.Second
	// reviewsPerSecond and reviewsAtOnce bound the questions about all: whoever sends tokens that nobody knows keeps neither the
	// API server nor the controller busy.
	reviewsPerSecond = 20
	reviewsAtOnce    = 40
)

// authMiddleware authenticates and authorizes: it lets requests through whose token the API server knows and whose owner may get the path.
type authMiddleware struct {
	kube kubernetes.Interface
	now  func() time.Time

	mu    sync.Mutex
	known map[visit]verdict
}

// visit is a token and a path.
type visit struct {
	token [sha256.Size]byte
	path  string
}

type verdict struct {
	err   error
	until time.Time
}

func newAuthMiddleware(kube kubernetes.Interface, now func() time.Time) *authMiddleware {
	return &authMiddleware{kube: kube, now: now, known: map[visit]verdict{}}
}

// reviewClient is the client that tokens are reviewed with. It has a rate limit of its own, so that no visitor can use up the
// controller's.
func reviewClient(config *rest.Config) (kubernetes.Interface, error) {
	config = rest.CopyConfig(config)
	config.QPS, config.Burst = reviewsPerSecond, reviewsAtOnce
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making a client for token reviews: %w", err)
	}
	return kube, nil
}

// authorize implements web.Options.Authorize.
func (b *authMiddleware) authorize(r *http.Request) error {
	token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if token = strings.TrimSpace(token); !ok || token == "" {
		return errors.New("a token is needed: send the header Authorization: Bearer TOKEN, for example one of kubectl create token")
	}
	v := visit{sha256.Sum256([]byte(token)), guardedPrefix + section(r.URL.Path)}
	if known, err := b.recall(v); known {
		return err
	}
	ctx, cancel := context.WithTimeout(r.Context(), reviewTimeout)
	defer cancel()
	lasting, err := b.review(ctx, token, v.path)
	if lasting {
		b.remember(v, err)
	}
	return err
}

// section is what rights are given by: the first three parts of a path, which leave out names of objects.
func section(path string) string {
	parts := strings.SplitN(strings.TrimPrefix(path, "/"), "/", 4)
	return "/" + strings.Join(parts[:min(len(parts), 3)], "/")
}

func (b *authMiddleware) recall(v visit) (known bool, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	found, ok := b.known[v]
	if !ok || !b.now().Before(found.until) {
		return false, nil
	}
	return true, found.err
}

func (b *authMiddleware) remember(v visit, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.now()
	if len(b.known) >= maxRemembered {
		for old, found := range b.known {
			if !now.Before(found.until) {
				delete(b.known, old)
			}
		}
	}
	if len(b.known) >= maxRemembered {
		clear(b.known)
	}
	until := now.Add(rememberFor)
	if err != nil {
		until = now.Add(refuseFor)
	}
	b.known[v] = verdict{err, until}
}

// review asks the API server whose token it is and whether they may get the path. lasting says that it has answered.
func (b *authMiddleware) review(ctx context.Context, token, path string) (lasting bool, err error) {
	who, err := b.kube.AuthenticationV1().TokenReviews().Create(ctx, &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}}, metav1.CreateOptions{})
	if err != nil {
		return false, unasked("tokenreviews.authentication.k8s.io", err)
	}
	if !who.Status.Authenticated {
		return true, errors.New("the API server does not accept this token: it is not one of this cluster, has expired, was made for another audience, or its account is gone. kubectl create token makes a new one")
	}
	user := who.Status.User
	extra := map[string]authorizationv1.ExtraValue{}
	for key, values := range user.Extra {
		extra[key] = authorizationv1.ExtraValue(values)
	}
	may, err := b.kube.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: user.Username, UID: user.UID, Groups: user.Groups, Extra: extra,
		NonResourceAttributes: &authorizationv1.NonResourceAttributes{Path: path, Verb: "get"},
	}}, metav1.CreateOptions{})
	if err != nil {
		return false, unasked("subjectaccessreviews.authorization.k8s.io", err)
	}
	if !may.Status.Allowed {
		return true, fmt.Errorf("%w: %s may not get %s; a ClusterRole with nonResourceURLs [%s/*] and verbs [get] allows it", web.ErrForbidden, user.Username, path, guardedPrefix)
	}
	return true, nil
}

// unasked says that the API server could not be asked. Whoever reads it is not known yet: it names no address.
func unasked(resource string, err error) error {
	if apierrors.IsForbidden(err) {
		return fmt.Errorf("%w: the controller's account may not create %s; the chart allows it with settings.dashboardAddress", web.ErrUnasked, resource)
	}
	return fmt.Errorf("%w: the API server does not answer; try again in a moment", web.ErrUnasked)
}
