package operator_test

import (
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"karpenter/test/harness"
)

// TestA1_WebhookIsServedInACluster: with a Service in front, the controller points the definitions at it and keeps its keys.
func TestA1_WebhookIsServedInACluster(t *testing.T) {
	shared := cluster
	t.Cleanup(func() { cluster = shared })
	cluster = harness.Start(t, harness.Options{}) // the definitions of the other are used by other tests
	c := startChild(t, []string{
		"AWS_ENDPOINT_URL=" + newAWS(t), "DISABLE_LEADER_ELECTION=true", "KARPENTER_SERVICE=karpenter", "WEBHOOK_PORT=" + strconv.Itoa(freePort(t)), "WEBHOOK_SERVICE_PORT=443",
	})
	c.get(c.health, "/readyz", ok)
	deadline := time.After(5 * time.Minute)
	for {
		definition, secret := &apiextensionsv1.CustomResourceDefinition{}, &corev1.Secret{}
		err := cluster.Client.Get(t.Context(), client.ObjectKey{Name: "nodepools.karpenter.sh"}, definition)
		if err == nil {
			err = cluster.Client.Get(t.Context(), client.ObjectKey{Namespace: "kube-system", Name: "karpenter-conversion"}, secret)
		}
		if webhook := definition.Spec.Conversion; err == nil && webhook != nil && webhook.Webhook != nil && webhook.Webhook.ClientConfig.Service != nil {
			service := webhook.Webhook.ClientConfig.Service
			if service.Name != "karpenter" || service.Namespace != "kube-system" || *service.Port != 443 || len(webhook.Webhook.ClientConfig.CABundle) == 0 {
				t.Errorf("the definition points to %+v", service)
			}
			break
		}
		select {
		case <-deadline:
			t.Fatalf("the definition is not pointed at the Service: %+v, %v", definition.Spec.Conversion, err)
		case <-time.After(50 * time.Millisecond):
		}
	}
	c.stop()
}
