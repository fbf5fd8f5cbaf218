"""The three tiers of tests: fast, extended and nightly.

- `make test` runs everything that is fast, and one test of each slow kind. A slow test starts a JVM, a browser,
  clients in other languages, an etcd cluster or many daemons, or it sends requests of the largest sizes.
- `make test-extended` runs the slow tests. Of a matrix, such as clients by compression codecs, it runs some
  members, which have each client and each option at least once.
- `make test-nightly` runs the other members. `make nightly` includes it.

Continuous integration runs the first two tiers. Longer rounds have targets of their own (`make crash`, `make soak`,
`make oracle`, ...).
"""

from collections.abc import Collection, Iterator, Mapping
from typing import Final

EXTENDED_FIXTURES: Final = frozenset({"spark"})
"""A test that uses one of these is in the extended tier."""
FIXTURE_FOLDERS: Final = ("tests/golden/", "tests/pipeline/")
"""The folders with tests that use `EXTENDED_FIXTURES`."""

EXTENDED: Final = (
    "tests/broker/test_durability.py::test_the_other_errors_at_every_call_while_serving",
    "tests/broker/test_many_servers.py",
    "tests/cluster/etcd/",
    "tests/crash/test_every_call.py::test_a_crash_at_every_call[1-",
    "tests/crash/test_journal.py::test_nothing_acknowledged_is_lost[200]",
    "tests/crash/test_journal.py::test_nothing_acknowledged_is_lost[250]",
    "tests/crash/test_journal.py::test_nothing_acknowledged_is_lost[300]",
    "tests/crash/test_journal.py::test_nothing_acknowledged_is_lost[350]",
    "tests/crash/test_kill.py",
    "tests/distribution/test_wheels.py",
    "tests/docker/environments/test_measured_environments.py",
    "tests/docker/test_plugin_container.py",
    "tests/docker/test_recipes.py",
    "tests/ecosystem/",
    "tests/golden/test_warehouse.py",
    "tests/hostile/test_answers.py",
    "tests/hostile/test_api.py",
    "tests/hostile/test_attacks.py::test_other_clients_work_during_an_attack_on_each_list",
    "tests/hostile/test_authentication.py",
    "tests/hostile/test_batches.py",
    "tests/hostile/test_configs.py",
    "tests/hostile/test_consumer_groups.py",
    "tests/hostile/test_elements.py",
    "tests/hostile/test_floods.py",
    "tests/hostile/test_full_disk.py",
    "tests/hostile/test_http.py",
    "tests/hostile/test_places.py",
    "tests/hostile/test_producers.py",
    "tests/hostile/test_request_memory.py",
    "tests/hostile/test_topics.py",
    "tests/hostile/test_turns.py",
    "tests/http/page/test_findings_on_page.py",
    "tests/http/page/test_page.py",
    "tests/interop/",
    "tests/kafka_log/test_hand_back.py",
    "tests/kafka_log/test_hand_back_transactions.py",
    "tests/kafka_log/test_hanging_transactions.py",
    "tests/kafka_tools/test_living_tools.py",
    "tests/kafka_log/test_producer_files.py",
    "tests/oracle/test_recorded_answers.py::test_every_explanation_is_of_a_difference_that_is_there",
    "tests/oracle/test_recorded_answers.py::test_groupd_answers_as_kafka_did",
    "tests/pipeline/test_command.py::test_killed_or_interrupted_it_loses_and_repeats_nothing",
    "tests/pipeline/test_log_ends_of_cluster.py::test_a_cluster_says_what_its_directory_says[kafka]",
    "tests/pipeline/test_session.py",
    "tests/release/test_release.py::test_a_dry_run_of_this_repository_builds_and_checks_everything",
    "tests/release/test_release.py::test_the_line_that_make_wheels_prints_installs_everything",
    "tests/release/test_release.py::test_the_plugin_is_installed_from_a_clone_with_its_neighbour",
    "tests/release/test_workflow.py",
    "tests/readme/test_clients.py::test_client_prints_what_comes_and_ends_with_ctrl_c",
    "tests/readme/test_control_guide.py::test_the_guide_comes_as_it_is_shown",
    "tests/readme/test_replay_guide.py",
    "tests/readme/test_security_guide.py",
    "tests/simulation/test_broker_seeds.py::test_further_seed",
    "tests/simulation/test_cluster_seeds.py::test_further_seed",
    "tests/simulation/test_consumer_seeds.py::test_further_seed",
    "tests/simulation/test_seeds.py::test_further_seed",
    "tests/simulation/test_transaction_seeds.py::test_further_seed",
    "tests/tools/",
    "tests/topics/test_interleaved_requests.py::test_an_interleaved_request_leaves_what_one_order_leaves[a",
    "tests/topics/test_interleaved_requests.py::test_an_interleaved_request_leaves_what_one_order_leaves[c",
    "tests/topics/test_interleaved_requests.py::test_an_interleaved_request_leaves_what_one_order_leaves[d",
    "tests/topics/test_interleaved_requests.py::test_an_interleaved_request_leaves_what_one_order_leaves[g",
    "tests/topics/test_interleaved_requests.py::test_an_interleaved_request_leaves_what_one_order_leaves[p",
    "tests/topics/test_interleaved_requests.py::test_an_interleaved_request_leaves_what_one_order_leaves[r",
)
"""Beginnings of the node ids of tests in the extended tier."""

REPRESENTATIVES: Final = (
    "tests/cluster/etcd/test_stock_client.py",
    "tests/crash/test_kill.py::test_every_acknowledged_commit_outlives_kill_9[always]",
    "tests/distribution/test_wheels.py::test_an_image_is_built_from_what_its_dockerfile_copies[docker/Dockerfile",
    "tests/distribution/test_wheels.py::test_the_wheel_holds_one_package",
    *(
        f"tests/docker/environments/test_measured_environments.py::test_the_image_replaces_kafka[{environment}]"
        for environment in ("kafka-ssl", "opentelemetry-demo", "zilla")
    ),
    "tests/hostile/test_consumer_groups.py::test_a_member_that_never_revokes_is_fenced",
    "tests/hostile/test_full_disk.py",
    "tests/http/page/test_findings_on_page.py::test_a_killed_consumer_is_the_headline",
    "tests/http/page/test_page.py::test_a_button_does_what_the_same_curl_does",
    "tests/http/page/test_page.py::test_a_group_that_is_stuck_says_for_whom_it_waits",
    *(
        f"tests/interop/test_group_life.py::test_group_of_three_through_a_crash_a_leave_and_a_join[{client}]"
        for client in (
            "aiokafka",
            "confluent",
            "confluent-consumer",
            "franz_go",
            "java",
            "kafka_python",
            "kafkajs",
        )
    ),
    "tests/pipeline/test_build.py::test_a_stopped_build_leaves_the_tables_that_it_finished",
    "tests/tools/test_consumer_groups.py",
)
"""Beginnings of the node ids of tests that `make test` runs although `EXTENDED` has them: one of each slow kind."""


_INTEROP: Final = "tests/interop"
_LOGINS: Final = {
    "librdkafka": (
        *("PLAINTEXT", "SSL right", "SSL no", "SASL_PLAINTEXT mechanism unknown", "SASL_SSL PLAIN expired"),
        *("SASL_PLAINTEXT PLAIN right", "SASL_SSL SCRAM-SHA-256 right", "SASL_PLAINTEXT SCRAM-SHA-512 right"),
        *("SASL_SSL PLAIN wrong", "SASL_PLAINTEXT SCRAM-SHA-256 unknown"),
    ),
    "kafka_python": (
        *("SSL right", "SSL foreign", "SASL_PLAINTEXT mechanism unknown", "SASL_SSL SCRAM-SHA-256 expired"),
        *("SASL_SSL PLAIN right", "SASL_PLAINTEXT SCRAM-SHA-256 right", "SASL_SSL SCRAM-SHA-512 right"),
        *("SASL_SSL SCRAM-SHA-256 wrong", "SASL_PLAINTEXT PLAIN unknown", "SASL_SSL SCRAM-SHA-512 unknown"),
    ),
    "aiokafka": (
        *("SSL right", "SSL expired", "SASL_PLAINTEXT mechanism unknown", "SASL_SSL PLAIN expired"),
        *("SASL_PLAINTEXT PLAIN right", "SASL_SSL SCRAM-SHA-256 right", "SASL_PLAINTEXT SCRAM-SHA-512 right"),
        *("SASL_SSL SCRAM-SHA-512 wrong", "SASL_SSL PLAIN unknown"),
    ),
    "kafkajs": (
        *("SSL right", "SSL no", "SASL_PLAINTEXT mechanism unknown", "SASL_SSL SCRAM-SHA-256 expired"),
        *("SASL_SSL PLAIN right", "SASL_PLAINTEXT SCRAM-SHA-256 right", "SASL_SSL SCRAM-SHA-512 right"),
        *("SASL_PLAINTEXT SCRAM-SHA-512 wrong", "SASL_PLAINTEXT PLAIN wrong"),
    ),
    "java": (
        *("SSL right", "SSL foreign", "SASL_PLAINTEXT mechanism unknown", "SASL_SSL PLAIN expired"),
        *("SASL_PLAINTEXT PLAIN right", "SASL_SSL SCRAM-SHA-256 right", "SASL_PLAINTEXT SCRAM-SHA-512 right"),
        *("SASL_PLAINTEXT SCRAM-SHA-256 wrong", "SASL_PLAINTEXT SCRAM-SHA-512 unknown"),
        *("SSL JKS stores", "SASL_SSL PKCS12 stores"),
    ),
    "franz_go": (
        *("SSL right", "SSL expired", "SASL_PLAINTEXT mechanism unknown", "SASL_SSL SCRAM-SHA-256 expired"),
        *("SASL_SSL PLAIN right", "SASL_PLAINTEXT SCRAM-SHA-256 right", "SASL_SSL SCRAM-SHA-512 right"),
        *("SASL_SSL PLAIN wrong", "SASL_SSL SCRAM-SHA-256 unknown"),
    ),
}
"""The logins of each client in the extended tier.

Each client has each SASL mechanism, each secured protocol, a certificate, refusals of a certificate and of
credentials, and the end of a session.
"""


def _login_members() -> Iterator[str]:
    """Yield the ids of the matrix of logins: clients, and clients with their logins."""
    for client, logins in _LOGINS.items():
        yield client
        yield from (f"{client}-{login}" for login in logins)


NIGHTLY: Final[Mapping[str, tuple[str, ...]]] = {
    "tests/cluster/etcd/test_cuts.py::test_an_owner_is_cut_off_from_etcd": ("both", "answers"),
    "tests/distribution/test_wheels.py::test_a_session_of_such_a_project_reads_the_log": ("wheel",),
    "tests/distribution/test_wheels.py::test_each_side_imports_its_own_modules": (
        *("wheel-package-PYTHONPATH with -P", "wheel-module-src layout"),
        *("wheel-namespace package-current directory", "editable-package-current directory"),
        *("editable-module-PYTHONPATH with -P", "editable-namespace package-src layout"),
    ),
    "tests/distribution/test_wheels.py::test_the_pipeline_runs_on_a_cluster_beside_such_a_project": (),
    "tests/distribution/test_wheels.py::test_the_plugin_and_its_daemon_serve_such_a_project_under_xdist": (
        "wheel-namespace package-src layout",
        "editable-package-PYTHONPATH with -P",
    ),
    "tests/docker/environments/test_measured_environments.py::test_the_image_replaces_kafka[": (
        *("kafka-cluster", "dd-trace-js-actions", "kafka-ui", "kafkajs", "vector", "trino"),
        *("cp-all-in-one-kraft", "cp-all-in-one", "cp-demo", "jitsu", "faststream", "topicctl-auth"),
        *("flink-playgrounds", "emqx", "debezium-tutorial", "dd-trace-js", "microcks", "apicurio", "posthog"),
    ),
    "tests/docker/environments/test_measured_environments.py::test_the_image_replaces_kafka_with_the_recipe": (
        *("kafka-ui", "kafkajs", "cp-demo"),
    ),
    "tests/docker/test_recipes.py": (
        *("python, drop-in", "node", "go, drop-in", "java", "java, drop-in for Confluent's image"),
    ),
    "tests/ecosystem/test_connect.py::test_every_line_is_copied_though_a_worker_dies": (),
    "tests/ecosystem/test_streams.py::test_exactly_once_no_count_comes_twice": (),
    "tests/pipeline/test_real_kafka.py": ("compacted",),
    "tests/pipeline/test_session.py": (),
    "tests/simulation/test_cluster_seeds.py::test_further_seed": tuple(map(str, range(50, 75))),
    "tests/simulation/test_broker_seeds.py::test_further_seed": tuple(map(str, range(30, 45))),
    "tests/simulation/test_consumer_seeds.py::test_further_seed": tuple(map(str, range(100, 150))),
    "tests/simulation/test_seeds.py::test_further_seed": tuple(map(str, range(100, 150))),
    "tests/simulation/test_transaction_seeds.py::test_further_seed": tuple(map(str, range(100, 150))),
    f"{_INTEROP}/matrix/test_matrix.py": tuple(_login_members()),
    f"{_INTEROP}/test_assignors.py::test_assignor_shares_and_gives_back": (
        *("confluent-cooperative-sticky", "kafka_python-sticky", "aiokafka-roundrobin", "kcat-range"),
        *("kafkajs-roundrobin", "java-cooperative-sticky", "franz_go-sticky", "java-consumer-range"),
    ),
    f"{_INTEROP}/test_assignors.py::test_group_describes_itself": ("aiokafka", "java"),
    f"{_INTEROP}/test_cluster_transactions.py": ("confluent-abort", "java-commit"),
    f"{_INTEROP}/test_control_room.py": ("confluent", "aiokafka", "kafkajs"),
    f"{_INTEROP}/test_group_migration.py": ("confluent",),
    f"{_INTEROP}/test_group_life.py::test_new_group_members_resume_at_the_committed_offset": (
        *("kafka_python", "kcat", "kafkajs", "franz_go", "java-consumer"),
    ),
    f"{_INTEROP}/test_moves.py": ("confluent", "aiokafka", "java"),
    f"{_INTEROP}/test_producers.py::test_produced_records_are_read_back": (
        *("confluent-zstd", "kafka_python-gzip", "aiokafka-lz4"),
        *("kafkajs-none", "java-snappy", "franz_go-gzip"),
    ),
    f"{_INTEROP}/test_producers.py::test_producer_without_idempotence": ("confluent", "kafka_python"),
    f"{_INTEROP}/test_producers.py::test_transactional_producer": (),
    f"{_INTEROP}/test_restart.py": (
        *("confluent-SIGTERM", "kafka_python-SIGKILL", "aiokafka-SIGTERM", "kcat-SIGKILL"),
        *("kafkajs-SIGKILL", "java-SIGTERM", "franz_go-SIGKILL", "confluent-consumer-SIGKILL"),
    ),
    f"{_INTEROP}/test_rolling_restart.py::test_members_join_restart_and_leave_one_by_one": (
        *("confluent-cooperative-sticky", "aiokafka-roundrobin"),
    ),
    f"{_INTEROP}/test_rolling_restart.py::test_static_members_restart_one_by_one": ("confluent",),
    f"{_INTEROP}/test_static_membership.py::test_static_member_gets_its_partitions_back_without_a_rebalance": (
        *("kafka_python", "aiokafka", "kcat", "franz_go", "java-consumer"),
    ),
    f"{_INTEROP}/test_static_membership.py::test_static_member_that_stays_away_is_replaced": ("java",),
    f"{_INTEROP}/test_stopped_process.py": ("confluent", "java"),
    f"{_INTEROP}/test_subscription.py::test_added_partitions_are_shared": (
        *("kafka_python", "kafkajs", "franz_go"),
    ),
    f"{_INTEROP}/test_subscription.py::test_member_that_subscribes_to_more_gets_more": ("confluent", "java"),
    f"{_INTEROP}/test_subscription.py::test_pattern_subscription_takes_up_a_new_topic": (
        *("confluent", "aiokafka", "kcat", "franz_go-consumer", "java-consumer"),
    ),
    f"{_INTEROP}/test_transactions.py::test_a_consumer_waits_for_the_end_of_a_transaction": (
        *("kafka_python", "aiokafka", "kcat", "kafkajs", "franz_go"),
    ),
    f"{_INTEROP}/test_transactions.py::test_a_zombie_is_fenced": (
        *("confluent-produce", "kafka_python-commit", "aiokafka-produce", "kafkajs-commit"),
        *("java-produce", "franz_go-commit"),
    ),
    f"{_INTEROP}/test_transactions.py::test_offsets_count_after_the_commit": ("aiokafka", "java", "franz_go"),
    f"{_INTEROP}/test_transactions.py::test_transactions_go_on_after_restarts": (
        *("confluent", "kafkajs", "java"),
    ),
}
"""Tests of which the extended tier runs some members: the beginning of node ids, and the ids of those members.

Without members another test of the extended tier has the same proof, or the test is about a fixture of tests:

- `test_every_line_is_copied_though_a_worker_dies`: tests/ecosystem/test_cluster_connect.py
- `test_exactly_once_no_count_comes_twice`: tests/ecosystem/test_cluster_streams.py
- `test_the_pipeline_runs_on_a_cluster_beside_such_a_project`: the tests of a session of such a project, and of a
  cluster that runs the pipeline from an archive
- `test_transactional_producer`: tests/interop/test_transactions.py
- tests/pipeline/test_session.py: tests the fixture `spark`; `tests/tooling` tests shared fixtures in general
"""


def is_extended(node_id: str, fixtures: Collection[str]) -> bool:
    """Whether `make test` leaves a test out. `fixtures` are the names of the fixtures that it uses."""
    if node_id.startswith(REPRESENTATIVES):
        return False
    return node_id.startswith(EXTENDED) or not EXTENDED_FIXTURES.isdisjoint(fixtures)


def may_have_extended_tests(path: str) -> bool:
    """Return whether a test file may have extended tests. `path` is relative to the repository."""
    rows = [row.partition("::")[0] for row in EXTENDED]
    return path.startswith((*rows, *FIXTURE_FOLDERS))


def is_nightly(node_id: str) -> bool:
    """Return whether `make test-extended` leaves out an extended test, too."""
    if node_id.startswith(REPRESENTATIVES):
        return False
    member = node_id.partition("[")[2].removesuffix("]")
    kept = [members for beginning, members in NIGHTLY.items() if node_id.startswith(beginning)]
    return bool(kept) and not any(member in members for members in kept)
