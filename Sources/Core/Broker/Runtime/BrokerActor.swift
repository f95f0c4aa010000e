/// The isolation of every piece of the broker. The code between two suspension points is one step without interleaving;
/// calls between pieces need no `await` (decision 28).
@globalActor
public actor BrokerActor {
  public static let shared = BrokerActor()
}
