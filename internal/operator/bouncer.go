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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"karpenter/internal/web"
)

const (
	// rememberFor is how long the API server's word about a token counts, and maxRemembered about how many at once: more only ask
	// more often.
	rememberFor   = time.Minute
	maxRemembered = 1000
	// guardedPrefix is in front of paths when the API server is asked whether somebody may get them. Without it every user could,
	// because the API server's own paths under /api/ are open to all of them.
	guardedPrefix = "/karpenter"
	// reviewTimeout bounds the questions about one request.
	reviewTimeout = 10 * time.Second
)

// bouncer lets requests through whose token the API server knows and whose owner may get the path.
type bouncer struct {
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

func newBouncer(kube kubernetes.Interface, now func() time.Time) *bouncer {
	return &bouncer{kube: kube, now: now, known: map[visit]verdict{}}
}

// authorize implements web.Options.Authorize.
func (b *bouncer) authorize(r *http.Request) error {
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

func (b *bouncer) recall(v visit) (known bool, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	found, ok := b.known[v]
	if !ok || !b.now().Before(found.until) {
		return false, nil
	}
	return true, found.err
}

func (b *bouncer) remember(v visit, err error) {
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
	b.known[v] = verdict{err, now.Add(rememberFor)}
}

// review asks the API server whose token it is and whether they may get the path. lasting says that it has answered.
func (b *bouncer) review(ctx context.Context, token, path string) (lasting bool, err error) {
	who, err := b.kube.AuthenticationV1().TokenReviews().Create(ctx, &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}}, metav1.CreateOptions{})
	if err != nil {
		return false, fmt.Errorf("the API server could not be asked about the token: %w", err)
	}
	if !who.Status.Authenticated {
		return true, errors.New("the API server does not know this token, or it has expired")
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
		return false, fmt.Errorf("the API server could not be asked what %s may see: %w", user.Username, err)
	}
	if !may.Status.Allowed {
		return true, fmt.Errorf("%w: %s may not get %s; a ClusterRole with nonResourceURLs [%s/*] and verbs [get] allows it", web.ErrForbidden, user.Username, path, guardedPrefix)
	}
	return true, nil
}
