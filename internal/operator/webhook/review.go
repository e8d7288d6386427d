package webhook

import (
	"context"
	stdjson "encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/json"

	"karpenter/api/convert"
)

const (
	// maxReview bounds a request. The API server sends a whole list in one; five thousand claims are about 25 MiB.
	maxReview = 64 << 20
	// maxParallel bounds how many requests of a kind are worked on at once; the others wait. Kinds have places of their own,
	// because converting a claim may ask for its pool, which may have to be converted too.
	maxParallel = 8
	// reviewTimeout is less than the 30 seconds that the API server waits.
	reviewTimeout = 25 * time.Second
)

// reviewer answers the API server's requests for one kind.
type reviewer struct {
	pools     func(context.Context) convert.Pools // makes the answerer for one request; may be nil
	converted func(object map[string]any)         // is told of every object that became v1; may be nil
	places    chan struct{}
}

func newReviewer(pools func(context.Context) convert.Pools) *reviewer {
	return &reviewer{pools: pools, places: make(chan struct{}, maxParallel)}
}

// ServeHTTP reads an apiextensions.k8s.io/v1 ConversionReview and writes the answer. Whatever can be said about a bad object is
// said in the answer; only what is no review at all is a bad request.
func (h *reviewer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		http.Error(w, "a conversion is asked for with POST", http.StatusMethodNotAllowed)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), reviewTimeout)
	defer cancel()
	select {
	case h.places <- struct{}{}:
		defer func() { <-h.places }()
	case <-ctx.Done():
		http.Error(w, "too many conversions are under way", http.StatusServiceUnavailable)
		return
	}
	request, err := readReview(http.MaxBytesReader(w, r.Body, maxReview))
	if err != nil {
		status := http.StatusBadRequest
		if tooLarge := new(http.MaxBytesError); errors.As(err, &tooLarge) {
			status = http.StatusRequestEntityTooLarge
		}
		http.Error(w, err.Error(), status)
		return
	}
	answer, err := stdjson.Marshal(apiextensionsv1.ConversionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: apiextensionsv1.SchemeGroupVersion.String(), Kind: "ConversionReview"},
		Response: h.respond(ctx, request),
	})
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(answer) // a client that has gone needs no answer
}

func readReview(body io.Reader) (*apiextensionsv1.ConversionRequest, error) {
	data, err := io.ReadAll(body)
	if err != nil {
		return nil, fmt.Errorf("reading the ConversionReview: %w", err)
	}
	var review apiextensionsv1.ConversionReview
	if err := stdjson.Unmarshal(data, &review); err != nil {
		return nil, fmt.Errorf("the body is not a ConversionReview: %w", err)
	}
	if want := apiextensionsv1.SchemeGroupVersion.String(); review.APIVersion != want || review.Kind != "ConversionReview" {
		return nil, fmt.Errorf("the body is a %q of %q, must be a ConversionReview of %s", review.Kind, review.APIVersion, want)
	}
	if review.Request == nil {
		return nil, errors.New("the ConversionReview has no request")
	}
	return review.Request, nil
}

// respond converts all objects, or none: the protocol has no place for a part.
func (h *reviewer) respond(ctx context.Context, request *apiextensionsv1.ConversionRequest) *apiextensionsv1.ConversionResponse {
	response := &apiextensionsv1.ConversionResponse{UID: request.UID, ConvertedObjects: []runtime.RawExtension{}}
	var pools convert.Pools
	if h.pools != nil {
		pools = h.pools(ctx)
	}
	for i, object := range request.Objects {
		converted, err := h.one(object.Raw, request.DesiredAPIVersion, pools)
		if err != nil {
			response.ConvertedObjects = nil
			response.Result = metav1.Status{
				Status:  metav1.StatusFailure,
				Reason:  metav1.StatusReasonInvalid,
				Message: fmt.Sprintf("objects[%d]: %v", i, err),
			}
			return response
		}
		response.ConvertedObjects = append(response.ConvertedObjects, runtime.RawExtension{Raw: converted})
	}
	response.Result.Status = metav1.StatusSuccess
	return response
}

// one converts a single object. A bug must not take the process down with it, nor leave the API server without a word.
func (h *reviewer) one(raw []byte, apiVersion string, pools convert.Pools) (converted []byte, err error) {
	defer func() {
		if bug := recover(); bug != nil {
			err = fmt.Errorf("converting it panicked, which is a bug in Karpenter: %v", bug)
		}
	}()
	var object map[string]any
	if err := json.Unmarshal(raw, &object); err != nil {
		return nil, fmt.Errorf("is not a JSON object: %w", err)
	}
	out, err := convert.Object(object, apiVersion, pools)
	if err != nil {
		return nil, err
	}
	if out["metadata"] == nil { // what an API server makes of an applied object has none, and older ones ask for some in the answer
		out["metadata"] = map[string]any{}
	}
	if h.converted != nil && object["apiVersion"] != apiVersion && strings.HasSuffix(apiVersion, "/v1") {
		h.converted(out)
	}
	return json.Marshal(out)
}
