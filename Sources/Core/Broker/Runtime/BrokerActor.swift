/// The isolation of every piece of the broker. What a piece does between two suspension points is one step that no other
/// piece can interleave with; calls from one piece to another need no `await` (decision 28).
@globalActor
public actor BrokerActor {
  public static let shared = BrokerActor()
}
