# Capacity reservations and placement groups. Old commands do not know the
# interruptible kind; then its two operations are called by hand.
q() { aws ec2 "$@" --output text; }
cr=$(q create-capacity-reservation --instance-type m5.large --instance-platform Linux/UNIX --availability-zone us-west-2a --instance-count 3 --query CapacityReservation.CapacityReservationId)
q modify-capacity-reservation --capacity-reservation-id $cr --instance-count 2
q describe-capacity-reservations --capacity-reservation-ids $cr --query 'CapacityReservations[].AvailableInstanceCount'
raw() {
  curl -sSf -H 'Authorization: AWS4-HMAC-SHA256 Credential=test/20251001/us-west-2/ec2/aws4_request, SignedHeaders=host, Signature=0' -d "Version=2016-11-15&Action=$1" "$AWS_ENDPOINT_URL/" > /dev/null
}
if ! aws ec2 create-interruptible-capacity-reservation-allocation --capacity-reservation-id $cr --instance-count 1 > /dev/null 2> err.txt; then
  grep -q -i 'invalid choice' err.txt
  raw "CreateInterruptibleCapacityReservationAllocation&CapacityReservationId=$cr&InstanceCount=1"
  raw "UpdateInterruptibleCapacityReservationAllocation&CapacityReservationId=$cr&TargetInstanceCount=0"
else
  aws ec2 update-interruptible-capacity-reservation-allocation --capacity-reservation-id $cr --target-instance-count 0 > /dev/null
fi
q cancel-capacity-reservation --capacity-reservation-id $cr
q create-placement-group --group-name g --strategy partition --partition-count 3 > /dev/null
q describe-placement-groups --group-names g --query 'PlacementGroups[].PartitionCount'
q delete-placement-group --group-name g
echo done
