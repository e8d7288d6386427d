package aws

import (
	"errors"
	"net/http"
	"strings"

	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/smithy-go"

	"karpenter/cloud"
)

// scope is what a code says about other launches.
type scope int

const (
	scopeNone scope = iota
	// scopeOffering: this type in this zone of this capacity type.
	scopeOffering
	// scopeSpot: all of spot.
	scopeSpot
	// scopeSubnet: the subnet, whatever the type.
	scopeSubnet
	// scopeReservation: the capacity reservation.
	scopeReservation
	// scopeSpread: the placement group in this zone, whatever the type: a spread group takes so many instances per zone.
	scopeSpread
)

// meaning is what an AWS error code stands for.
type meaning struct {
	class  cloud.Class
	reason string
	scope  scope
}

// Codes that the package branches on.
const (
	codeTokenReused    = "IdempotentParameterMismatch"
	codeDryRun         = "DryRunOperation"
	codeEntityExists   = "EntityAlreadyExists"
	codeTemplateExists = "InvalidLaunchTemplateName.AlreadyExistsException"
	codeInvalidValue   = "InvalidParameterValue"
	codeInvalidParam   = "InvalidParameter"
	codeInvalidCombo   = "InvalidParameterCombination"
	// codeMalformedID is about an id that no instance can have.
	codeMalformedID = "InvalidInstanceID.Malformed"

	reasonTemplateNotFound = "LaunchTemplateNotFound"
)

// meanings is the one table from AWS's codes to classes, reasons and what they say of stock.
var meanings = map[string]meaning{
	"InsufficientInstanceCapacity":      {cloud.NoCapacity, "InsufficientInstanceCapacity", scopeOffering},
	"InsufficientHostCapacity":          {cloud.NoCapacity, "InsufficientInstanceCapacity", scopeOffering},
	"UnfulfillableCapacity":             {cloud.NoCapacity, "UnfulfillableCapacity", scopeOffering},
	"Unsupported":                       {cloud.NoCapacity, "Unsupported", scopeOffering},
	"SpotMaxPriceTooLow":                {cloud.NoCapacity, "SpotMaxPriceTooLow", scopeOffering},
	"MaxSpotInstanceCountExceeded":      {cloud.NoCapacity, "SpotQuotaExceeded", scopeOffering},
	"VcpuLimitExceeded":                 {cloud.NoCapacity, "VCPULimitExceeded", scopeOffering},
	"InstanceLimitExceeded":             {cloud.NoCapacity, "VCPULimitExceeded", scopeOffering},
	"MaxFleetCountExceeded":             {cloud.NoCapacity, "FleetQuotaExceeded", scopeOffering},
	"InsufficientFreeAddressesInSubnet": {cloud.NoCapacity, "InsufficientFreeAddressesInSubnet", scopeSubnet},
	"ReservationCapacityExceeded":       {cloud.NoCapacity, "ReservationCapacityExceeded", scopeReservation},

	"AuthFailure.ServiceLinkedRoleCreationNotPermitted": {cloud.Denied, "SpotSLRCreationFailed", scopeSpot},
	"UnauthorizedOperation":                             {cloud.Denied, "Unauthorized", scopeNone},
	"AuthFailure":                                       {cloud.Denied, "Unauthorized", scopeNone},
	"AccessDenied":                                      {cloud.Denied, "Unauthorized", scopeNone},
	"AccessDeniedException":                             {cloud.Denied, "Unauthorized", scopeNone},
	"OptInRequired":                                     {cloud.Denied, "Unauthorized", scopeNone},
	"ExpiredToken":                                      {cloud.Denied, "Unauthorized", scopeNone},
	"InvalidClientTokenId":                              {cloud.Denied, "Unauthorized", scopeNone},
	"UnrecognizedClientException":                       {cloud.Denied, "Unauthorized", scopeNone},
	"PendingVerification":                               {cloud.Denied, "AccountPendingVerification", scopeNone},

	"RequestLimitExceeded":     {cloud.Throttled, "RequestLimitExceeded", scopeNone},
	"Throttling":               {cloud.Throttled, "RequestLimitExceeded", scopeNone},
	"ThrottlingException":      {cloud.Throttled, "RequestLimitExceeded", scopeNone},
	"TooManyRequestsException": {cloud.Throttled, "RequestLimitExceeded", scopeNone},
	"RequestThrottled":         {cloud.Throttled, "RequestLimitExceeded", scopeNone},
	"EC2ThrottledException":    {cloud.Throttled, "RequestLimitExceeded", scopeNone},

	"InvalidLaunchTemplateName.NotFoundException": {cloud.NotFound, reasonTemplateNotFound, scopeNone},
	"InvalidLaunchTemplateId.NotFound":            {cloud.NotFound, reasonTemplateNotFound, scopeNone},
	"InvalidInstanceID.NotFound":                  {cloud.NotFound, "InstanceNotFound", scopeNone},
	"InvalidCapacityReservationId.NotFound":       {cloud.NotFound, "CapacityReservationNotFound", scopeNone},
	"InvalidPlacementGroup.Unknown":               {cloud.NotFound, "PlacementGroupNotFound", scopeNone},
	"InvalidPlacementGroupId.Unknown":             {cloud.NotFound, "PlacementGroupNotFound", scopeNone},
	"NoSuchEntity":                                {cloud.NotFound, "NoSuchEntity", scopeNone},
	"NoSuchEntityException":                       {cloud.NotFound, "NoSuchEntity", scopeNone},
	"ParameterNotFound":                           {cloud.NotFound, "ParameterNotFound", scopeNone},
	"ParameterVersionNotFound":                    {cloud.NotFound, "ParameterNotFound", scopeNone},

	codeMalformedID:             {cloud.Invalid, "InvalidInstanceID", scopeNone},
	"InvalidAMIID.NotFound":     {cloud.Invalid, "AMINotFound", scopeNone},
	"InvalidAMIID.Malformed":    {cloud.Invalid, "InvalidAMIID", scopeNone},
	"InvalidAMIID.Unavailable":  {cloud.Invalid, "InvalidAMIID", scopeNone},
	"InvalidUserData.Malformed": {cloud.Invalid, "UserDataSizeLimitExceeded", scopeNone},
	"InvalidSubnetID.NotFound":  {cloud.Invalid, "SubnetNotFound", scopeNone},
	"InvalidSubnetId.NotFound":  {cloud.Invalid, "SubnetNotFound", scopeNone},
	"InvalidGroup.NotFound":     {cloud.Invalid, "SecurityGroupNotFound", scopeNone},
	codeInvalidValue:            {cloud.Invalid, "InvalidParameter", scopeNone},
	codeInvalidParam:            {cloud.Invalid, "InvalidParameter", scopeNone},
	codeInvalidCombo:            {cloud.Invalid, "InvalidParameter", scopeNone},
	"MissingParameter":          {cloud.Invalid, "InvalidParameter", scopeNone},
	"ValidationError":           {cloud.Invalid, "InvalidParameter", scopeNone},
	"MaxTemplateLimitExceeded":  {cloud.NoCapacity, "LaunchTemplateQuotaExceeded", scopeNone},
	"LimitExceeded":             {cloud.NoCapacity, "QuotaExceeded", scopeNone},

	codeTokenReused: {cloud.Unknown, "LaunchedBefore", scopeNone},
}

// phrases tell apart what shares a code.
var phrases = []struct {
	code, text string
	meaning    meaning
}{
	{"InsufficientInstanceCapacity", "spread placement group", meaning{cloud.NoCapacity, "InsufficientInstanceCapacity", scopeSpread}},
	{codeInvalidValue, "Invalid IAM Instance Profile", meaning{cloud.Invalid, "InstanceProfileNameInvalid", scopeNone}},
	{codeInvalidParam, "belong to different networks", meaning{cloud.Invalid, "SecurityGroupSubnetVPCMismatch", scopeNone}},
	{codeInvalidCombo, "Free Tier", meaning{cloud.Invalid, "FreeTierIneligible", scopeNone}},
	{"AuthFailure", "image", meaning{cloud.Denied, "AMIAuthorizationFailure", scopeNone}},
}

// lookup is the meaning of a code; ok is false for one that is not in the table.
func lookup(code, message string) (meaning, bool) {
	for _, p := range phrases {
		if p.code == code && strings.Contains(message, p.text) {
			return p.meaning, true
		}
	}
	m, ok := meanings[code]
	return m, ok
}

// readError classifies a failed call that could change nothing.
func readError(op string, err error) error { return classify(op, err, cloud.Transient) }

// writeError classifies a failed call that may have taken effect.
func writeError(op string, err error) error { return classify(op, err, cloud.Unknown) }

// classify gives err the class of its code. unsure is the class of what came without an answer, or with one that says only
// that the server failed.
func classify(op string, err error, unsure cloud.Class) error {
	if err == nil {
		return nil
	}
	out := &cloud.Error{Class: unsure, Op: op, Err: err}
	var api smithy.APIError
	if !errors.As(err, &api) {
		return out
	}
	if m, ok := lookup(api.ErrorCode(), api.ErrorMessage()); ok {
		out.Class, out.Reason = m.class, m.reason
		return out
	}
	var response *awshttp.ResponseError
	if errors.As(err, &response) && response.HTTPStatusCode() >= http.StatusBadRequest && response.HTTPStatusCode() < http.StatusInternalServerError {
		out.Class, out.Reason = cloud.Invalid, reasonWord(api.ErrorCode())
		return out
	}
	out.Reason = "InternalError"
	return out
}

// reasonWord makes a code fit for a condition's reason.
func reasonWord(code string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' {
			return r
		}
		return -1
	}, code)
}

// codeOf is the AWS error code, or "".
func codeOf(err error) string {
	var api smithy.APIError
	if errors.As(err, &api) {
		return api.ErrorCode()
	}
	return ""
}
