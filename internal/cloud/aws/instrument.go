package aws

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/smithy-go/middleware"

	"karpenter/internal/meter"
)

// Instrument makes every client of the configuration count and time its calls.
func Instrument(cfg aws.Config, m *meter.Set, clock Clock) aws.Config {
	c := &callMeter{m, clock}
	out := cfg.Copy()
	out.APIOptions = append(out.APIOptions, func(stack *middleware.Stack) error {
		// The first sees a call as its caller does, with all attempts and the waits between them; the second a single attempt.
		if err := stack.Initialize.Add(middleware.InitializeMiddlewareFunc("karpenterCalls", c.call), middleware.After); err != nil {
			return err
		}
		return stack.Deserialize.Add(middleware.DeserializeMiddlewareFunc("karpenterAttempts", c.attempt), middleware.Before)
	})
	return out
}

// callMeter counts calls to AWS.
type callMeter struct {
	meter *meter.Set
	clock Clock
}

func (c *callMeter) call(ctx context.Context, in middleware.InitializeInput, next middleware.InitializeHandler) (middleware.InitializeOutput, middleware.Metadata, error) {
	begun := c.clock.Now()
	out, metadata, err := next.HandleInitialize(ctx, in)
	labels := labelsOf(ctx, err)
	c.meter.Add(SDKRequests, 1, labels...)
	c.meter.Observe(SDKDuration, c.since(begun), labels...)
	if attempts, ok := retry.GetAttemptResults(metadata); ok {
		c.meter.Observe(SDKRetries, float64(len(attempts.Results)-1), labels...)
	}
	return out, metadata, err
}

func (c *callMeter) attempt(ctx context.Context, in middleware.DeserializeInput, next middleware.DeserializeHandler) (middleware.DeserializeOutput, middleware.Metadata, error) {
	begun := c.clock.Now()
	out, metadata, err := next.HandleDeserialize(ctx, in)
	labels := labelsOf(ctx, err)
	c.meter.Add(SDKAttempts, 1, labels...)
	c.meter.Observe(SDKAttemptDuration, c.since(begun), labels...)
	return out, metadata, err
}

func (c *callMeter) since(begun time.Time) float64 { return c.clock.Now().Sub(begun).Seconds() }

// labelsOf names the call and the status of its answer, which is 0 where there was none.
func labelsOf(ctx context.Context, err error) []string {
	status := 200
	if err != nil {
		status = 0
		var response *awshttp.ResponseError
		if errors.As(err, &response) {
			status = response.HTTPStatusCode()
		}
	}
	return []string{"service", awsmiddleware.GetServiceID(ctx), "action", awsmiddleware.GetOperationName(ctx), "code", strconv.Itoa(status)}
}
