// Package clouds lists the providers that our programs hold. A provider is added here, and nowhere else in the controller.
package clouds

import (
	"karpenter/cloud/plug"
	"karpenter/internal/cloud/aws/awsplug"
	"karpenter/internal/cloud/capi/capiplug"
)

// Plugins are the providers; the first is the one that is taken unless another is named.
func Plugins() []plug.Plugin {
	return []plug.Plugin{awsplug.Plugin(), capiplug.Plugin()}
}
