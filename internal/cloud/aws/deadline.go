package aws

import (
	"context"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/smithy-go/middleware"
)

const (
	// attemptLimit is how long AWS may take to answer one attempt at a call: longer than a long poll of a queue, which takes 20
	// seconds, and than any page takes to download.
	attemptLimit = 30 * time.Second
	// fleetLimit is the same for a fleet, which EC2 fills before it answers.
	fleetLimit = time.Minute
)

// bounded gives every attempt at a call a deadline. Neither the SDK nor the HTTP client has one, and a socket that nobody answers at
// would hold its caller, and all who share the call, for ever.
func bounded(cfg aws.Config) aws.Config {
	out := cfg.Copy()
	out.APIOptions = append(out.APIOptions, func(stack *middleware.Stack) error {
		// Around what reads the answer, within what tries again.
		return stack.Deserialize.Add(middleware.DeserializeMiddlewareFunc("karpenterDeadline", deadline), middleware.Before)
	})
	return out
}

func deadline(ctx context.Context, in middleware.DeserializeInput, next middleware.DeserializeHandler) (middleware.DeserializeOutput, middleware.Metadata, error) {
	limit := attemptLimit
	if awsmiddleware.GetOperationName(ctx) == "CreateFleet" {
		limit = fleetLimit
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return next.HandleDeserialize(ctx, in)
}
