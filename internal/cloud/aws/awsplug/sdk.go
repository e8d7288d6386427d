package awsplug

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/smithy-go/logging"
	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	awscloud "karpenter/internal/cloud/aws"
	"karpenter/internal/meter"
)

// loadAWS is readAWS with every call counted. What the SDK has to say by itself goes to the log as everything does; what is worth a
// warning to an operator comes back as an error.
func loadAWS(ctx context.Context, version string, set *meter.Set, log *slog.Logger) (aws.Config, error) {
	cfg, err := readAWS(ctx, version)
	cfg.Logger = logging.LoggerFunc(func(as logging.Classification, format string, v ...any) {
		log.Debug("message of the AWS SDK", "as", as, "text", fmt.Sprintf(format, v...))
	})
	cfg.APIOptions = append(cfg.APIOptions, countCalls(set))
	return cfg, err
}

// readAWS reads the SDK's own environment: region, credentials, endpoints. Without a region in it the instance that this
// process runs on is asked for its own.
func readAWS(ctx context.Context, version string) (aws.Config, error) {
	cfg, err := config.LoadDefaultConfig(ctx)
	if err != nil {
		return aws.Config{}, fmt.Errorf("reading the configuration for AWS: %w", err)
	}
	if cfg.Region == "" {
		if cfg, err = config.LoadDefaultConfig(ctx, config.WithEC2IMDSRegion()); err != nil {
			return aws.Config{}, fmt.Errorf(`AWS_REGION="": must be set to the region of the cluster, such as us-west-2; EC2 does not say which region this process runs in: %w`, err)
		}
	}
	cfg.APIOptions = append(cfg.APIOptions, awsmiddleware.AddUserAgentKey("karpenter.sh-"+version))
	return cfg, nil
}

// countCalls counts and times calls to AWS and their single attempts (aws §7.5).
func countCalls(set *meter.Set) func(*middleware.Stack) error {
	return func(stack *middleware.Stack) error {
		err := stack.Initialize.Add(middleware.InitializeMiddlewareFunc("CountCalls",
			func(ctx context.Context, in middleware.InitializeInput, next middleware.InitializeHandler) (middleware.InitializeOutput, middleware.Metadata, error) {
				begin := time.Now()
				out, metadata, err := next.HandleInitialize(ctx, in)
				labels := callLabels(ctx, metadata, err)
				set.Add(awscloud.SDKRequests, 1, labels...)
				set.Observe(awscloud.SDKDuration, time.Since(begin).Seconds(), labels...)
				if attempts, ok := retry.GetAttemptResults(metadata); ok {
					set.Observe(awscloud.SDKRetries, float64(max(len(attempts.Results)-1, 0)), labels...)
				}
				return out, metadata, err
			}), middleware.After)
		if err != nil {
			return fmt.Errorf("counting calls to AWS: %w", err)
		}
		err = stack.Deserialize.Add(middleware.DeserializeMiddlewareFunc("CountAttempts",
			func(ctx context.Context, in middleware.DeserializeInput, next middleware.DeserializeHandler) (middleware.DeserializeOutput, middleware.Metadata, error) {
				begin := time.Now()
				out, metadata, err := next.HandleDeserialize(ctx, in)
				labels := attemptLabels(ctx, out.RawResponse, err)
				set.Add(awscloud.SDKAttempts, 1, labels...)
				set.Observe(awscloud.SDKAttemptDuration, time.Since(begin).Seconds(), labels...)
				return out, metadata, err
			}), middleware.After)
		if err != nil {
			return fmt.Errorf("counting attempts at calls to AWS: %w", err)
		}
		return nil
	}
}

func callLabels(ctx context.Context, metadata middleware.Metadata, err error) []string {
	code := codeOf(awsmiddleware.GetRawResponse(metadata), err)
	return []string{"service", awsmiddleware.GetServiceID(ctx), "action", awsmiddleware.GetOperationName(ctx), "code", code}
}

func attemptLabels(ctx context.Context, response any, err error) []string {
	return []string{"service", awsmiddleware.GetServiceID(ctx), "action", awsmiddleware.GetOperationName(ctx), "code", codeOf(response, err)}
}

// codeOf is the status of an answer, or 0 where there was none.
func codeOf(response any, err error) string {
	var failed *smithyhttp.ResponseError
	switch r := response.(type) {
	case *smithyhttp.Response:
		return strconv.Itoa(r.StatusCode)
	case *http.Response:
		return strconv.Itoa(r.StatusCode)
	}
	if errors.As(err, &failed) {
		return strconv.Itoa(failed.HTTPStatusCode())
	}
	return "0"
}

// guardCalls refuses calls to AWS that change something while the fence is down.
func guardCalls(fence func() error) func(*middleware.Stack) error {
	return func(stack *middleware.Stack) error {
		err := stack.Finalize.Add(middleware.FinalizeMiddlewareFunc("LeaderFence",
			func(ctx context.Context, in middleware.FinalizeInput, next middleware.FinalizeHandler) (middleware.FinalizeOutput, middleware.Metadata, error) {
				if action := awsmiddleware.GetOperationName(ctx); !asking(action) {
					if err := fence(); err != nil {
						return middleware.FinalizeOutput{}, middleware.Metadata{}, fmt.Errorf("%s: %w", action, err)
					}
				}
				return next.HandleFinalize(ctx, in)
			}), middleware.After)
		if err != nil {
			return fmt.Errorf("fencing calls to AWS: %w", err)
		}
		return nil
	}
}

// asking says of an action of AWS that it changes nothing.
func asking(action string) bool {
	for _, verb := range []string{"Describe", "Get", "List", "Receive", "Assume"} {
		if strings.HasPrefix(action, verb) {
			return true
		}
	}
	return false
}
