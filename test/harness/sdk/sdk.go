// Package sdk sets the AWS SDK up for an AWS simulator on a loopback port: any secret will do, and nobody waits before trying again.
package sdk

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
)

// Config is for clients that talk to the AWS at that address, signing with an access key.
func Config(region, url, key string) aws.Config {
	return aws.Config{
		Region: region, BaseEndpoint: aws.String(url), HTTPClient: Client{},
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: key, SecretAccessKey: "secret"}, nil
		}),
		Retryer: func() aws.Retryer {
			return retry.NewStandard(func(o *retry.StandardOptions) { o.MaxBackoff = time.Millisecond })
		},
	}
}

// Client sends a copy of the request's body. The SDK closes the body itself too, and when a server answers at once the
// second close can hit the connection while the answer is being read.
type Client struct{}

// Do sends a request.
func (Client) Do(r *http.Request) (*http.Response, error) {
	if r.Body == nil {
		return http.DefaultClient.Do(r)
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	copied := r.Clone(r.Context())
	copied.Body = io.NopCloser(bytes.NewReader(body))
	return http.DefaultClient.Do(copied)
}
