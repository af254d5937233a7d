<?php
/* Stands in for Action Scheduler inside WordPress: the classes and methods that weir-runner.php uses,
 * over the tables of lib_wordpress.create_action_scheduler().  Each callback that ran is a row of the
 * table `ran`.  Two files in the folder that STAND_IN names tell it how to behave:
 *
 *      deadlocks   so many claims fail, as with a deadlock
 *      hold        callbacks wait until this file is gone
 *
 * It is required by a must-use plugin. */

class ActionScheduler_ActionClaim
{
    private $id, $actions;

    public function __construct($id, array $actions)
    {
        $this->id = $id;
        $this->actions = $actions;
    }

    public function get_id()
    {
        return $this->id;
    }

    public function get_actions()
    {
        return $this->actions;
    }
}

class ActionScheduler_DBStore
{
    /** The number in the file becomes smaller. */
    private function is_deadlock(): bool
    {
        $file = STAND_IN . '/deadlocks';
        $left = (int) @file_get_contents($file);
        if ($left > 0)
            file_put_contents($file, $left - 1);
        return $left > 0;
    }

    public function stake_claim($max_actions = 10, $before_date = null, $hooks = array(), $group = '')
    {
        global $wpdb;
        $now = gmdate('Y-m-d H:i:s');
        $wpdb->insert($wpdb->actionscheduler_claims, array('date_created_gmt' => $now));
        $id = $wpdb->insert_id;
        if ($this->is_deadlock())
            throw new RuntimeException('Deadlock found when trying to get lock');
        $names = "'" . implode("', '", array_map('esc_sql', $hooks)) . "'";
        $wpdb->query($wpdb->prepare("UPDATE {$wpdb->actionscheduler_actions} SET claim_id = %d,"
            . " last_attempt_gmt = %s WHERE claim_id = 0 AND status = 'pending' AND scheduled_date_gmt <= %s"
            . ($hooks ? " AND hook IN ($names)" : '') . ' ORDER BY action_id LIMIT %d', $id, $now, $now, $max_actions));
        return new ActionScheduler_ActionClaim($id, $this->find_actions_by_claim_id($id));
    }

    public function find_actions_by_claim_id($id)
    {
        global $wpdb;
        return $wpdb->get_col($wpdb->prepare("SELECT action_id FROM {$wpdb->actionscheduler_actions}"
            . ' WHERE claim_id = %d ORDER BY action_id', $id));
    }

    public function release_claim(ActionScheduler_ActionClaim $claim)
    {
        global $wpdb;
        $wpdb->update($wpdb->actionscheduler_actions, array('claim_id' => 0), array('claim_id' => $claim->get_id()));
        $wpdb->delete($wpdb->actionscheduler_claims, array('claim_id' => $claim->get_id()));
    }

    public function get_claim_count()
    {
        global $wpdb;
        return (int) $wpdb->get_var("SELECT COUNT(DISTINCT claim_id) FROM {$wpdb->actionscheduler_actions}"
            . " WHERE claim_id <> 0 AND status IN ('pending', 'in-progress')");
    }
}

class ActionScheduler_FatalErrorMonitor
{
    public function __construct($store)
    {
    }

    public function attach($claim)
    {
    }

    public function detach()
    {
    }
}

class ActionScheduler
{
    public static function store()
    {
        static $store;
        return $store = $store ?: new ActionScheduler_DBStore();
    }
}

class ActionScheduler_QueueRunner
{
    public static function instance()
    {
        return new self();
    }

    public function process_action($id, $context = '')
    {
        global $wpdb;
        $hook = $wpdb->get_var($wpdb->prepare("SELECT hook FROM {$wpdb->actionscheduler_actions}"
            . " WHERE action_id = %d AND status = 'pending'", $id));
        if ($hook === null)
            return;
        $this->set_status($id, 'in-progress');
        $wpdb->insert($wpdb->prefix . 'ran', array('action_id' => $id, 'pid' => getmypid(),
            'at' => gmdate('Y-m-d H:i:s')));
        do_action($hook);
        for (clearstatcache(); file_exists(STAND_IN . '/hold'); clearstatcache()) {
            usleep(20000);
            if ($this->is_over())
                touch(STAND_IN . '/leaving');
        }
        $this->set_status($id, 'complete');
    }

    private function set_status($id, $status)
    {
        global $wpdb;
        $wpdb->update($wpdb->actionscheduler_actions, array('status' => $status), array('action_id' => $id));
    }

    public function run($context)
    {
        file_put_contents(STAND_IN . '/ran', $context . ' ' . (int) wp_doing_cron() . ' '
            . apply_filters('action_scheduler_queue_runner_concurrent_batches', 1) . "\n", FILE_APPEND);
        $store = ActionScheduler::store();
        if ($store->get_claim_count() >= apply_filters('action_scheduler_queue_runner_concurrent_batches', 1))
            return 0;
        do {
            $claim = $store->stake_claim(25);
            foreach ($claim->get_actions() as $id) {
                $this->process_action($id, $context);
                if ($this->is_over())
                    break;
            }
            $store->release_claim($claim);
        } while ($claim->get_actions() && !$this->is_over());
        return 0;
    }

    private function is_over()
    {
        return apply_filters('action_scheduler_maximum_execution_time_likely_to_be_exceeded', false, $this, 1, 0, 30);
    }
}

foreach (array('actionscheduler_actions', 'actionscheduler_claims') as $weir_table) {
    $wpdb->tables[] = $weir_table;      /* switch_to_blog() changes their names */
    $wpdb->$weir_table = $wpdb->prefix . $weir_table;
}
