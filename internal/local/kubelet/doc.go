// Package kubelet runs the pods of Karpenter's chart for real, on a cluster whose nodes and other pods are only simulated.
//
// A pod of the controller that the scheduler has bound becomes a process of this computer, with the arguments and the environment of its
// container as a kubelet would resolve them, a token of its service account, and the probes, restarts, logs and grace period that
// the pod asks for. What the pod's status says is what the process is. Only the image is not looked at: the program is given.
//
// Processes of one computer share its ports, so each gets free ones, and Dial leads to them from the addresses of pods and Services.
// The API server comes that way.
//
// The caller keeps others, such as kwok, away from pods that Ours selects. The package writes the status of these pods, deletes
// those whose end has come, and asks for tokens of their accounts; it touches files in its own folder only.
package kubelet
