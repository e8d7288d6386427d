package webhook

import (
	"bufio"
	"bytes"
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
	"k8s.io/apimachinery/pkg/types"
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
	objects, result := h.respond(ctx, request)
	write(w, request.UID, objects, result)
}

// write answers with a ConversionReview. The objects are JSON already, and may be five thousand: they are not copied into one more text.
func write(w http.ResponseWriter, uid types.UID, objects [][]byte, result metav1.Status) {
	id, _ := stdjson.Marshal(uid) // a text
	said, err := stdjson.Marshal(result)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	to := bufio.NewWriter(w) // a client that has gone needs no answer
	_, _ = fmt.Fprintf(to, `{"apiVersion":%q,"kind":"ConversionReview","response":{"uid":%s,"result":%s,"convertedObjects":[`, apiextensionsv1.SchemeGroupVersion.String(), id, said)
	for i, object := range objects {
		if i > 0 {
			_ = to.WriteByte(',')
		}
		_, _ = to.Write(object)
	}
	_, _ = to.WriteString("]}}")
	_ = to.Flush()
}

func readReview(body io.Reader) (*apiextensionsv1.ConversionRequest, error) {
	var data bytes.Buffer
	if _, err := data.ReadFrom(body); err != nil {
		return nil, fmt.Errorf("reading the ConversionReview: %w", err)
	}
	var review apiextensionsv1.ConversionReview
	if err := stdjson.Unmarshal(data.Bytes(), &review); err != nil {
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
func (h *reviewer) respond(ctx context.Context, request *apiextensionsv1.ConversionRequest) ([][]byte, metav1.Status) {
	var pools convert.Pools
	if h.pools != nil {
		pools = h.pools(ctx)
	}
	all := make([][]byte, 0, len(request.Objects))
	for i, object := range request.Objects {
		converted, err := h.one(object.Raw, request.DesiredAPIVersion, pools)
		if err != nil {
			return nil, metav1.Status{
				Status:  metav1.StatusFailure,
				Reason:  metav1.StatusReasonInvalid,
				Message: fmt.Sprintf("objects[%d]: %v", i, err),
			}
		}
		all = append(all, converted)
	}
	return all, metav1.Status{Status: metav1.StatusSuccess}
}

// one converts a single object. A bug must not take the process down with it, nor leave the API server without a word.
func (h *reviewer) one(raw []byte, apiVersion string, pools convert.Pools) (converted []byte, err error) {
	defer func() {
		if bug := recover(); bug != nil {
			err = fmt.Errorf("converting it panicked, which is a bug in Karpenter: %v", bug)
		}
	}()
	o, err := open(raw)
	if err != nil {
		return nil, fmt.Errorf("is not a JSON object: %w", err)
	}
	out, err := convert.Object(o.seen, apiVersion, pools)
	if err != nil {
		return nil, err
	}
	if converted, err = o.shut(out); err != nil {
		return nil, err
	}
	if h.converted != nil && o.seen["apiVersion"] != apiVersion && strings.HasSuffix(apiVersion, "/v1") {
		var whole map[string]any
		if err := json.Unmarshal(converted, &whole); err != nil {
			return nil, err
		}
		h.converted(whole)
	}
	return converted, nil
}

// opened is an object of which only what a conversion looks at is decoded. The rest is most of it, and API servers have thousands of
// objects converted at once, those that check their caches every five minutes.
type opened struct {
	seen                 map[string]any
	others, metadataElse parts
}

// parts are members of a JSON object.
type parts map[string]stdjson.RawMessage

func open(raw []byte) (o opened, err error) {
	if err = json.Unmarshal(raw, &o.others); err != nil {
		return o, err
	}
	var metadata map[string]any
	if json.Unmarshal(o.others["metadata"], &o.metadataElse) == nil && o.metadataElse != nil { // else the conversion says what is wrong with it
		delete(o.others, "metadata")
		if metadata, err = o.metadataElse.take("name", "generateName", "labels", "annotations"); err != nil {
			return o, err
		}
	}
	if o.seen, err = o.others.take("apiVersion", "kind", "metadata", "spec"); err != nil {
		return o, err
	}
	if metadata != nil {
		o.seen["metadata"] = metadata
	}
	return o, nil
}

// take decodes some members, and leaves the others.
func (p parts) take(names ...string) (map[string]any, error) {
	out := map[string]any{}
	for _, name := range names {
		text, is := p[name]
		if !is {
			continue
		}
		var value any
		if err := json.Unmarshal(text, &value); err != nil {
			return nil, err
		}
		out[name] = value
		delete(p, name)
	}
	return out, nil
}

// shut adds what was not decoded to what became of the rest.
func (o opened) shut(out map[string]any) ([]byte, error) {
	if out["metadata"] == nil { // what an API server makes of an applied object has none, and older ones ask for some in the answer
		out["metadata"] = map[string]any{}
	}
	if metadata, is := out["metadata"].(map[string]any); is {
		for name, text := range o.metadataElse {
			metadata[name] = text
		}
	}
	for name, text := range o.others {
		out[name] = text
	}
	return json.Marshal(out)
}
