"""Which tests `make test` leaves to `make test-extended`.

`make test` runs everything that is fast, and one test of each slow kind. A slow test starts a JVM, a browser,
clients in other languages, an etcd cluster or many daemons, or it sends requests of the largest sizes.
Continuous integration runs both tiers. Longer rounds have targets of their own (`make crash`, `make soak`,
`make oracle`, ...).
"""

from collections.abc import Collection
from typing import Final

EXTENDED_FIXTURES: Final = frozenset({"spark"})
"""A test that uses one of these is in the extended tier."""

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
    "tests/http/page/test_page.py",
    "tests/interop/",
    "tests/kafka_log/test_hand_back.py",
    "tests/kafka_log/test_hand_back_transactions.py",
    "tests/kafka_log/test_hanging_transactions.py",
    "tests/kafka_tools/test_living_tools.py",
    "tests/kafka_log/test_producer_files.py",
    "tests/oracle/test_recorded_answers.py::test_every_explanation_is_of_a_difference_that_is_there",
    "tests/oracle/test_recorded_answers.py::test_groupd_answers_as_kafka_did",
    "tests/pipeline/test_cluster.py",
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


def is_extended(node_id: str, fixtures: Collection[str]) -> bool:
    """Whether `make test` leaves a test out. `fixtures` are the names of the fixtures that it uses."""
    if node_id.startswith(REPRESENTATIVES):
        return False
    return node_id.startswith(EXTENDED) or not EXTENDED_FIXTURES.isdisjoint(fixtures)
