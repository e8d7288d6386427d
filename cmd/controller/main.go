// Command controller is what the image holds: the controller and nothing else.
package main

import (
	"karpenter/cloud/controller"
	"karpenter/internal/clouds"
)

// version is set when the program is linked.
var version = "unknown"

func main() { controller.Main(version, clouds.Plugins()...) }
