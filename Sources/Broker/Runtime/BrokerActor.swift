/// The isolation of every piece of the broker. What a piece does between two suspension points is one step that no other
/// piece can interleave with; calls from one piece to another need no `await` (docs/decisions/0028).
@globalActor
public actor BrokerActor {
  public static let shared = BrokerActor()
}
