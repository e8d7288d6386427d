package aws

import (
	"errors"
	"net/http"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"karpenter/cloud"
)

func answered(status int, code, message string) error {
	return &awshttp.ResponseError{ResponseError: &smithyhttp.ResponseError{
		Response: &smithyhttp.Response{Response: &http.Response{StatusCode: status}}, Err: &smithy.GenericAPIError{Code: code, Message: message},
	}}
}

func TestAWS_2_4_ErrorClasses(t *testing.T) {
	for _, tt := range []struct {
		name   string
		err    error
		class  cloud.Class
		reason string
	}{
		{"out of stock", answered(400, "InsufficientInstanceCapacity", ""), cloud.NoCapacity, "InsufficientInstanceCapacity"},
		{"quota", answered(400, "VcpuLimitExceeded", ""), cloud.NoCapacity, "VCPULimitExceeded"},
		{"spot quota", answered(400, "MaxSpotInstanceCountExceeded", ""), cloud.NoCapacity, "SpotQuotaExceeded"},
		{"fleet quota", answered(400, "MaxFleetCountExceeded", ""), cloud.NoCapacity, "FleetQuotaExceeded"},
		{"addresses", answered(400, "InsufficientFreeAddressesInSubnet", ""), cloud.NoCapacity, "InsufficientFreeAddressesInSubnet"},
		{"throttled", answered(503, "RequestLimitExceeded", ""), cloud.Throttled, "RequestLimitExceeded"},
		{"denied", answered(403, "UnauthorizedOperation", ""), cloud.Denied, "Unauthorized"},
		{"template", answered(400, "InvalidLaunchTemplateName.NotFoundException", ""), cloud.NotFound, "LaunchTemplateNotFound"},
		{"profile", answered(400, "InvalidParameterValue", "Value (x) for parameter iamInstanceProfile.name is invalid. Invalid IAM Instance Profile name"), cloud.Invalid, "InstanceProfileNameInvalid"},
		{"networks", answered(400, "InvalidParameter", "Security group sg-1 and subnet s-1 belong to different networks."), cloud.Invalid, "SecurityGroupSubnetVPCMismatch"},
		{"user data", answered(400, "InvalidUserData.Malformed", "User data is limited to 16384 bytes"), cloud.Invalid, "UserDataSizeLimitExceeded"},
		{"token", answered(400, "IdempotentParameterMismatch", ""), cloud.Unknown, "LaunchedBefore"},
		{"a code that nobody knows", answered(400, "Some.Odd-Code", ""), cloud.Invalid, "SomeOddCode"},
		{"11.20 a server error", answered(500, "InternalError", ""), cloud.Unknown, "InternalError"},
		{"no answer", errors.New("connection reset"), cloud.Unknown, "LaunchFailed"},
	} {
		err := writeError("launch", tt.err)
		if cloud.ClassOf(err) != tt.class || cloud.ReasonOf(err) != tt.reason {
			t.Errorf("%s: got %s %s, want %s %s", tt.name, cloud.ClassOf(err), cloud.ReasonOf(err), tt.class, tt.reason)
		}
		if !errors.Is(err, tt.err) {
			t.Errorf("%s: what AWS said must stay reachable", tt.name)
		}
	}
	if got := cloud.ClassOf(readError("list", errors.New("connection reset"))); got != cloud.Transient {
		t.Errorf("a read without an answer: got %s, want Transient", got)
	}
	if readError("list", nil) != nil || writeError("launch", nil) != nil {
		t.Error("no error has no class")
	}
}

func TestAWS_2_3_Refusal(t *testing.T) {
	fail := func(codes ...string) []types.CreateFleetError {
		var out []types.CreateFleetError
		for _, c := range codes {
			out = append(out, types.CreateFleetError{ErrorCode: aws.String(c)})
		}
		return out
	}
	for _, tt := range []struct {
		errs []types.CreateFleetError
		want cloud.Class
	}{
		{fail("InsufficientInstanceCapacity", "VcpuLimitExceeded"), cloud.NoCapacity},
		{fail("InsufficientInstanceCapacity", "UnauthorizedOperation"), cloud.Denied},
		{fail("NeverHeardOf"), cloud.Invalid},
		{nil, cloud.NoCapacity},
	} {
		if got := cloud.ClassOf(refusal("b", tt.errs)); got != tt.want {
			t.Errorf("%v: got %s, want %s", tt.errs, got, tt.want)
		}
	}
}
