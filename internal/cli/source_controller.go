package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"karpenter/internal/ledger"
	"karpenter/internal/model"
)

const (
	// answerTime bounds how long a controller may take; a recording of a thousand nodes takes a second.
	answerTime = 20 * time.Second
	// maxAnswer bounds what a controller may say.
	maxAnswer = 1 << 30
)

// endpoint is a controller's HTTP API.
type endpoint struct {
	// client reaches it; http.DefaultClient if nil.
	client *http.Client
	// base comes before /api/v1, name says in words what it is.
	base, name string
}

// endpointAt is the controller at an address that somebody has given.
func endpointAt(url string) (*endpoint, error) {
	if !strings.HasPrefix(url, "http://") && !strings.HasPrefix(url, "https://") {
		return nil, fmt.Errorf("--controller is %q; give an address such as http://127.0.0.1:8080", url)
	}
	return &endpoint{base: url, name: "controller at " + url}, nil
}

// get asks for a path below /api/v1.
func (e *endpoint) get(ctx context.Context, path string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(e.base, "/")+"/api/v1/"+path, http.NoBody)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", e.name, err)
	}
	client := e.client
	if client == nil {
		client = http.DefaultClient
	}
	response, err := client.Do(request)
	if err != nil {
		return nil, fmt.Errorf("%s does not answer: %w", e.name, err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil {
		return nil, fmt.Errorf("%s: reading its answer: %w", e.name, err)
	}
	if response.StatusCode != http.StatusOK {
		text := strings.TrimSpace(string(body[:min(len(body), 200)]))
		return nil, &statusError{response.StatusCode, fmt.Sprintf("%s answers %s: %s", e.name, response.Status, text)}
	}
	return body, nil
}

// load asks for the state of this moment.
func (e *endpoint) load(ctx context.Context) (*Loaded, error) {
	data, err := e.get(ctx, "recording")
	if err != nil {
		return nil, err
	}
	recording, err := ledger.Read(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", e.name, err)
	}
	return &Loaded{
		Recording: recording, From: e.name, reached: e,
		Decisions: func(q ledger.Query) ([]*ledger.Entry, error) { return e.decisions(ctx, q) },
	}, nil
}

// loadFleet asks for the nodes of this moment as rows. A controller of an older version does not have them ready: it is asked for
// everything.
func (e *endpoint) loadFleet(ctx context.Context) (*Loaded, error) {
	data, err := e.get(ctx, "fleet/nodes")
	var status *statusError
	switch {
	case errors.As(err, &status) && status.code == http.StatusNotFound:
		return e.load(ctx)
	case err != nil:
		return nil, err
	}
	fleet := &model.Fleet{}
	if err := json.Unmarshal(data, fleet); err != nil {
		return nil, fmt.Errorf("%s: reading its nodes: %w", e.name, err)
	}
	if fleet.APIVersion != model.APIVersion {
		return e.load(ctx)
	}
	return &Loaded{Fleet: fleet, From: e.name, reached: e}, nil
}

// decisions asks for entries of the ledger.
func (e *endpoint) decisions(ctx context.Context, q ledger.Query) ([]*ledger.Entry, error) {
	values := url.Values{}
	for _, kind := range q.Kinds {
		values.Add("kind", string(kind))
	}
	if q.About != nil {
		about := q.About.Kind + "/"
		if q.About.Namespace != "" {
			about += q.About.Namespace + "/"
		}
		values.Set("about", about+q.About.Name)
	}
	if q.Since > 0 {
		values.Set("since", strconv.FormatUint(q.Since, 10))
	}
	if q.Limit > 0 {
		values.Set("limit", strconv.Itoa(q.Limit))
	}
	data, err := e.get(ctx, "decisions?"+values.Encode())
	if err != nil {
		return nil, err
	}
	var answer ledger.Decisions
	if err := json.Unmarshal(data, &answer); err != nil {
		return nil, fmt.Errorf("%s: reading its decisions: %w", e.name, err)
	}
	return answer.Decisions, nil
}

// oneLine joins the lines of an error.
func oneLine(err error) string { return strings.Join(strings.Fields(err.Error()), " ") }

var errNoKarpenter = errors.New("the cluster does not know NodePools of karpenter.sh/v1: is Karpenter installed?")
